// Measures the rates of the CUDA kernels at the sizes of the recipe bench-gpu: 4 sequences of 4096 tokens, hidden 2048,
// 32 experts of 1024, 4 experts per token, 16 heads and 4 key heads of 128, 32,768 words. Tensors are bf16; sums and
// master weights are f32. Also measures a product of 8192 x 8192 x 8192, the experts of other models, and products
// that run at the same time as spinning blocks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <functional>
#include <iostream>
#include <numeric>

#include "framework/base/error.h"
#include "framework/device/cuda/cuda_stream.h"
#include "tools/bench/bench_gpu_sizes.h"
#include "tools/bench/cuda_timer.h"
#include "tools/bench/product_benchmarks.h"

namespace hexad::bench {

using namespace base;
using namespace kernels;
namespace {

constexpr auto bf = Dtype::bf16, f32 = Dtype::f32, i32 = Dtype::i32, i64 = Dtype::i64;

double count(std::initializer_list<int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), 1.0,
                         [](double p, int64_t n) { return p * static_cast<double>(n); });
}

/// Returns the bytes of memory traffic if each tensor is read or written once.
double bytes(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& t : tensors) sum += static_cast<double>(t.bytes());
  return sum;
}

void dense(CudaTimer& b, const KernelTable& k, const std::string& name, int64_t t, int64_t d, int64_t n, Dtype out) {
  const Work work{.operations = 2 * count({t, d, n})};
  const Tensor x = b.normal({t, d}, bf), w = b.normal({n, d}, bf, 0.02), dy = b.normal({t, n}, bf);
  const Tensor y = b.empty({t, n}, out), dx = b.empty({t, d}, bf), dw = b.normal({n, d}, f32);
  const auto title = [&](const char* what) { return fmt::format("{} {} {}x{}x{}", name, what, t, d, n); };
  b.line(title("forward"), work, [&](Stream& s) { k.matmul.forward(s, y, x, w, Write::replace); });
  b.line(title("dgrad"), work, [&](Stream& s) { k.matmul.input_gradient(s, dx, dy, w, Write::replace); });
  b.line(title("wgrad"), work, [&](Stream& s) { k.matmul.weight_gradient(s, dw, dy, x, Write::replace); });
  b.line(title("wgrad add"), work, [&](Stream& s) { k.matmul.weight_gradient(s, dw, dy, x, Write::add); });
}

// Measures the router's product of bf16 rows and f32 weights. The product has few FLOPs, but must read all of x.
void router_product(CudaTimer& b, const KernelTable& k) {
  const Tensor x = b.normal({tokens, hidden}, bf), w = b.normal({experts, hidden}, f32, 0.02);
  const Tensor y = b.normal({tokens, experts}, f32), dx = b.empty({tokens, hidden}, bf), dw = b.empty(w.shape(), f32);
  const double operations = 2 * count({tokens, hidden, experts});
  b.line("router product forward", {operations, bytes({x, w, y})},
         [&](Stream& s) { k.matmul.forward(s, y, x, w, Write::replace); });
  b.line("router product dgrad", {operations, bytes({dx, w, y})},
         [&](Stream& s) { k.matmul.input_gradient(s, dx, y, w, Write::replace); });
  b.line("router product wgrad", {operations, bytes({x, w, y})},
         [&](Stream& s) { k.matmul.weight_gradient(s, dw, y, x, Write::replace); });
}

/// Distribution of the rows over the experts: a text for line titles, and the relative share of expert e.
struct Routing {
  std::string name;
  std::function<double(int64_t e)> share;
};
const Routing balanced{"", [](int64_t) { return 1.0; }};
const Routing zipf{", Zipf", [](int64_t e) { return std::pow(static_cast<double>(e + 1), -0.8); }};
// Routing of random tokens by an untrained router. A hot expert gets eight times as many rows as any other expert.
const Routing four_hot{", 4 hot of 32", [](int64_t e) { return e == 5 || e == 13 || e == 18 || e == 30 ? 8.0 : 1.0; }};

// Returns the experts' row offsets.
std::vector<int64_t> offsets_of(const Routing& routing) {
  double all = 0, sum = 0;
  for (int64_t e = 0; e < experts; ++e) all += routing.share(e);
  std::vector<int64_t> offsets{0};
  for (int64_t e = 0; e < experts; ++e)
    offsets.push_back(std::llround(static_cast<double>(rows) * ((sum += routing.share(e)) / all)));
  return offsets;
}

void grouped(CudaTimer& b, const KernelTable& k, const std::string& name, int64_t d, int64_t n, const Routing& routing,
             bool on_host) {
  const std::vector<int64_t> offsets = offsets_of(routing);
  GroupOffsets groups = GroupOffsets::on_host(offsets);
  groups.device = b.values<int64_t>(offsets, {experts + 1});
  if (!on_host) groups.host = {}, groups.max_rows = rows;
  const Work work{.operations = 2 * count({rows, d, n})};
  const Tensor x = b.normal({rows, d}, bf), w = b.normal({experts, n, d}, bf, 0.02), dy = b.normal({rows, n}, bf);
  const Tensor y = b.empty({rows, n}, bf), dx = b.empty({rows, d}, bf), dw = b.normal({experts, n, d}, f32);
  const Tensor narrow = b.empty({experts, n, d}, bf);
  const auto title = [&](const char* what) {
    return fmt::format("{} {}{}{}", name, what, routing.name, on_host ? ", host knows" : "");
  };
  const auto& g = k.grouped_matmul;
  b.line(title("forward"), work, [&](Stream& s) { g.forward(s, y, x, w, groups, Write::replace); });
  b.line(title("dgrad"), work, [&](Stream& s) { g.input_gradient(s, dx, dy, w, groups, Write::replace); });
  b.line(title("wgrad"), work, [&](Stream& s) { g.weight_gradient(s, dw, dy, x, groups, Write::replace); });
  b.line(title("wgrad add"), work, [&](Stream& s) { g.weight_gradient(s, dw, dy, x, groups, Write::add); });
  b.line(title("wgrad bf16"), work, [&](Stream& s) { g.weight_gradient(s, narrow, dy, x, groups, Write::replace); });
}

// Measures attention with q, k and v stored side by side in each row, as in the model.
void attention(CudaTimer& b, const KernelTable& k) {
  AttentionShape shape{.sequences = sequences,
                       .queries = positions,
                       .keys = positions,
                       .scale = 1 / std::sqrt(static_cast<double>(head_size))};
  const auto parts = [](const Tensor& all) {
    return std::array{all.slice(1, 0, heads), all.slice(1, heads, heads + key_heads),
                      all.slice(1, heads + key_heads, heads + 2 * key_heads)};
  };
  const Shape all{tokens, heads + 2 * key_heads, head_size};
  const auto [q, keys, v] = parts(b.normal(all, bf));
  const auto [dq, dk, dv] = parts(b.empty(all, bf));
  const Tensor out = b.empty(q.shape(), bf), dout = b.normal(q.shape(), bf), sums = b.empty({tokens, heads}, f32);
  // Causal attention computes only half of the pairs.
  const double forward = 4 * count({sequences, heads, positions, positions, head_size}) / 2;
  b.prepare("attention", [&](Stream& s) { k.attention.forward(s, out, sums, q, keys, v, {}, {}, shape); });
  b.line("attention forward", {.operations = forward},
         [&](Stream& s) { k.attention.forward(s, out, sums, q, keys, v, {}, {}, shape); });
  for (bool deterministic : {false, true}) {
    shape.deterministic = deterministic;
    b.line(deterministic ? "attention backward, deterministic" : "attention backward", {.operations = 2.5 * forward},
           [&](Stream& s) {
             k.attention.backward(s, {dq, dk, dv}, dout, {out, sums, q, keys, v}, shape);
           });
  }
  std::vector<int32_t> positions_of(tokens);
  for (size_t i = 0; i < positions_of.size(); ++i) positions_of[i] = static_cast<int32_t>(i % positions);
  const Tensor where = b.values<int32_t>(positions_of, {tokens});
  const Tensor cosine = b.normal({positions, head_size / 2}, f32), sine = b.normal({positions, head_size / 2}, f32);
  const QueriesAndKeys rotated{out, b.empty(keys.shape(), bf)};
  b.line("rotary", {.bytes = bytes({q, keys, rotated.q, rotated.k})}, [&](Stream& s) {
    k.rotary.apply(s, rotated, {q, keys}, where, cosine, sine, Direction::forward);
  });
}

void norms(CudaTimer& b, const KernelTable& k) {
  const Shape shape{tokens, hidden};
  const Tensor x = b.normal(shape, bf), addend = b.normal(shape, bf), dy = b.normal(shape, bf);
  const Tensor out = b.empty(shape, bf), sum = b.empty(shape, bf), gain = b.normal({hidden}, bf);
  const Tensor inverse = b.empty({tokens}, f32), stats = b.empty({tokens, 2}, f32);
  const Tensor partials = b.empty({k.rms_norm.partials(tokens), hidden}, f32), dgain = b.normal({hidden}, f32);
  const auto& rms = k.rms_norm;
  b.line("rms_norm forward", {.bytes = bytes({x, out})},
         [&](Stream& s) { rms.forward(s, out, {}, inverse, x, {}, gain, 1e-6); });
  b.line("rms_norm forward, residual", {.bytes = bytes({x, addend, sum, out})},
         [&](Stream& s) { rms.forward(s, out, sum, inverse, x, addend, gain, 1e-6); });
  b.line("rms_norm backward, residual", {.bytes = bytes({dy, x, addend, out})},
         [&](Stream& s) { rms.backward(s, out, partials, dy, x, gain, inverse, addend); });
  b.line("bias backward of gain partials", {.bytes = bytes({partials})},
         [&](Stream& s) { k.bias.backward(s, dgain, partials); });
  b.line("layer_norm forward", {.bytes = bytes({x, out})},
         [&](Stream& s) { k.layer_norm.forward(s, out, stats, x, gain, {}, 1e-6); });
  b.line("layer_norm input_gradient", {.bytes = bytes({x, dy, out})},
         [&](Stream& s) { k.layer_norm.input_gradient(s, out, dy, x, gain, stats); });
  b.line("layer_norm weight_gradient", {.bytes = bytes({x, dy})},
         [&](Stream& s) { k.layer_norm.weight_gradient(s, dgain, {}, dy, x, stats); });
  b.line("bias forward", {.bytes = bytes({x, x})}, [&](Stream& s) { k.bias.forward(s, sum, gain); });
  b.line("bias backward", {.bytes = bytes({dy})}, [&](Stream& s) { k.bias.backward(s, dgain, dy); });
}

void activations(CudaTimer& b, const KernelTable& k) {
  const Tensor both = b.normal({rows, 2 * expert_hidden}, bf), dboth = b.empty(both.shape(), bf);
  const auto half = [](const Tensor& t, int64_t i) { return t.slice(1, i * expert_hidden, (i + 1) * expert_hidden); };
  const Tensor gate = half(both, 0), up = half(both, 1), dgate = half(dboth, 0), dup = half(dboth, 1);
  const Tensor out = b.empty(gate.shape(), bf), dout = b.normal(gate.shape(), bf), weights = b.normal({rows}, f32);
  const Tensor dweights = b.empty({rows}, f32);
  b.line("swiglu forward, weighted", {.bytes = bytes({gate, up, out})},
         [&](Stream& s) { k.swiglu.forward(s, out, gate, up, weights); });
  b.line("swiglu backward, weighted, product", {.bytes = bytes({gate, up, dout, dgate, dup, out})}, [&](Stream& s) {
    k.swiglu.backward(s, {dgate, dup, out, dweights}, dout, {gate, up, weights});
  });
  b.line("gelu forward", {.bytes = bytes({dout, out})},
         [&](Stream& s) { k.gelu.forward(s, out, dout, GeluKind::tanh); });
  b.line("gelu backward", {.bytes = bytes({dout, dout, out})},
         [&](Stream& s) { k.gelu.backward(s, out, dout, dout, GeluKind::tanh); });
}

void routing(CudaTimer& b, const KernelTable& k) {
  const Tensor logits = b.normal({tokens, experts}, f32), scores = b.empty(logits.shape(), f32);
  const Tensor ids = b.empty({tokens, top_k}, i32), weights = b.normal({tokens, top_k}, f32);
  const Tensor dlogits = b.empty(logits.shape(), f32), counts = b.empty({1, experts}, i64);
  const RouterRule rule{.top_k = top_k};
  b.prepare("ids", [&](Stream& s) { k.router.forward(s, scores, ids, weights, logits, {}, rule); });
  b.line("router forward", {.bytes = bytes({logits, scores, ids, weights})},
         [&](Stream& s) { k.router.forward(s, scores, ids, weights, logits, {}, rule); });
  b.line("router backward", {.bytes = bytes({scores, dlogits, ids, weights})},
         [&](Stream& s) { k.router.backward(s, dlogits, weights, {}, scores, ids, rule); });
  b.line("router_loss count", {.bytes = bytes({ids})}, [&](Stream& s) { k.router_loss.count(s, counts, {}, ids, {}); });
  const Tensor fractions = b.empty({1, experts}, f32), loss = b.empty({1}, f32);
  b.line("router_loss balance", {.bytes = bytes({scores})}, [&](Stream& s) {
    k.router_loss.fractions(s, fractions, counts);
    k.router_loss.balance(s, {loss}, scores, {}, fractions, {}, {.scale = 1e-2});
  });
  const Tensor by_row = b.empty({rows}, i64), by_slot = b.empty({tokens, top_k}, i64);
  const Tensor offsets = b.empty({experts + 1}, i64);
  b.prepare("rows", [&](Stream& s) { k.slots.sort(s, by_row, by_slot, offsets, ids); });
  b.line("slots sort", {.bytes = bytes({ids, by_row, by_slot})},
         [&](Stream& s) { k.slots.sort(s, by_row, by_slot, offsets, ids); });

  const Tensor x = b.normal({tokens, hidden}, bf), residual = b.normal({tokens, hidden}, bf);
  const Tensor y = b.normal({rows, hidden}, bf), out = b.empty(x.shape(), bf), dots = b.empty({rows}, f32);
  const Tensor scale = b.normal({rows}, f32), dweights = b.empty({tokens, top_k}, f32);
  const auto& p = k.permute;
  b.line("permute gather", {.bytes = bytes({x, y})}, [&](Stream& s) { p.gather(s, y, x, by_row, by_slot); });
  b.line("permute gather, without rows", {.bytes = bytes({x, y})}, [&](Stream& s) { p.gather(s, y, x, by_row, {}); });
  b.line("permute combine, residual", {.bytes = bytes({y, residual, out})},
         [&](Stream& s) { p.combine(s, out, y, by_slot, {}, std::array{residual}); });
  b.line("permute combine, weighted", {.bytes = bytes({y, out})},
         [&](Stream& s) { p.combine(s, out, y, by_slot, weights, {}); });
  b.line("permute gather_weighted", {.bytes = bytes({x, y})},
         [&](Stream& s) { p.gather_weighted(s, y, x, by_row, scale); });
  const Tensor dy = b.empty(y.shape(), bf);
  b.line("permute combine_backward", {.bytes = bytes({x, y, dy})},
         [&](Stream& s) { p.combine_backward(s, dy, dweights, x, y, by_slot, by_row, weights); });
  b.line("permute row_dots", {.bytes = bytes({y, dy})}, [&](Stream& s) { p.row_dots(s, dots, y, dy); });
  for (const auto& [format, name] : enum_names(WireFormat{})) {
    const Tensor packed = b.empty({rows, wire_row_bytes(format, bf, hidden, 1)}, Dtype::u8);
    const Tensor row_weights = b.normal({rows, 1}, f32);
    b.line(fmt::format("wire pack {}", name), {.bytes = bytes({y, packed})},
           [&, f = format](Stream& s) { k.wire.pack(s, packed, y, {}, row_weights, f); });
    b.line(fmt::format("wire unpack {}", name), {.bytes = bytes({dy, packed})},
           [&, f = format](Stream& s) { k.wire.unpack(s, dy, row_weights, packed, {}, f); });
  }
}

void vocabulary(CudaTimer& b, const KernelTable& k) {
  std::vector<int32_t> drawn(tokens);
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = static_cast<int32_t>(i * 7919 % words);
  const Tensor ids = b.values<int32_t>(drawn, {tokens});
  const Tensor table = b.normal({words, hidden}, bf), x = b.normal({tokens, hidden}, bf);
  const Tensor dtable = b.normal({words, hidden}, f32), out = b.empty(x.shape(), bf);
  b.line("embedding forward", {.bytes = bytes({x, out})}, [&](Stream& s) { k.embedding.forward(s, out, table, ids); });
  b.line("embedding backward", {.bytes = 5 * bytes({x})},  // reads x, and reads and writes an f32 row per token
         [&](Stream& s) { k.embedding.backward(s, dtable, x, ids); });
  const int64_t block = std::min(tokens, k.cross_entropy.block_rows(tokens, words));
  const Tensor logits = b.normal({block, words}, f32), losses = b.empty({block}, f32);
  const Tensor dlogits = b.empty({block, words}, bf), targets = ids.slice(0, 0, block);
  b.line(fmt::format("cross_entropy, {} rows", block), {.bytes = bytes({logits, dlogits})},
         [&](Stream& s) { k.cross_entropy.forward(s, losses, dlogits, logits, targets, 1e-4); });
  const Tensor in_bf16 = b.normal({block, words}, bf);
  b.line(fmt::format("cross_entropy in bf16, {} rows", block), {.bytes = bytes({in_bf16, dlogits})},
         [&](Stream& s) { k.cross_entropy.forward(s, losses, dlogits, in_bf16, targets, 1e-4); });
}

void pointwise_and_optimizer(CudaTimer& b, const KernelTable& k) {
  const Tensor x = b.normal({tokens, hidden}, bf), y = b.normal(x.shape(), bf), z = b.empty(x.shape(), bf);
  const Tensor wide = b.normal(x.shape(), f32), one = b.empty({1}, Dtype::f64);
  b.line("pointwise fill f32", {.bytes = bytes({wide})}, [&](Stream& s) { k.pointwise.fill(s, wide, 0); });
  b.line("pointwise copy to f32", {.bytes = bytes({x, wide})}, [&](Stream& s) { k.pointwise.copy(s, wide, x); });
  b.line("pointwise add", {.bytes = bytes({x, y, z})}, [&](Stream& s) { k.pointwise.add(s, z, x, y); });
  b.line("pointwise axpy into f32", {.bytes = bytes({x, wide, wide})},
         [&](Stream& s) { k.pointwise.axpy(s, wide, 0.5, x); });
  b.line("pointwise sum", {.bytes = bytes({wide})}, [&](Stream& s) { k.pointwise.sum(s, one, wide, Write::replace); });

  constexpr int64_t parameters = experts * 2 * expert_hidden * hidden;
  const Tensor main = b.normal({parameters}, f32), m = b.normal({parameters}, f32, 1e-3);
  const Tensor v = Tensor::zeros({parameters}, f32, main.device()), weights = b.empty({parameters}, bf);
  const Tensor gradient = b.normal({parameters}, f32, 1e-3), narrow = b.normal({parameters}, bf, 1e-3);
  const AdamwStep step{.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .step = 10};
  for (const Tensor& g : {gradient, narrow})
    b.line(fmt::format("adamw, {} gradient", name_of(g.dtype())),
           {.bytes = bytes({main, main, m, m, v, v, weights, g})}, [&](Stream& s) {
             k.optimizer.adamw(s, std::array{AdamwSlice{main, m, v, weights, g, 0.1}}, step, {});
           });
  const Tensor narrow_m = b.normal({parameters}, bf, 1e-3), narrow_v = Tensor::zeros({parameters}, bf, main.device());
  b.line("adamw, bf16 gradient and moments",
         {.bytes = bytes({main, main, narrow_m, narrow_m, narrow_v, narrow_v, weights, narrow})}, [&](Stream& s) {
           k.optimizer.adamw(s, std::array{AdamwSlice{main, narrow_m, narrow_v, weights, narrow, 0.1}}, step, {});
         });
  const Tensor rests = Tensor::zeros({parameters}, bf, main.device());
  b.line("adamw, f32 gradient, rests of main weights",
         {.bytes = bytes({rests, rests, m, m, v, v, weights, weights, gradient})}, [&](Stream& s) {
           k.optimizer.adamw(s, std::array{AdamwSlice{rests, m, v, weights, gradient, 0.1}}, step, {});
         });
  b.line("squared_norm f32", {.bytes = bytes({gradient})},
         [&](Stream& s) { k.optimizer.squared_norm(s, one, gradient, Write::replace); });
}

int run(const std::string& only, const std::string& json) {
  device::DeviceContext card(device::ContextOptions{.kind = device::DeviceKind::cuda});
  CudaTimer b(card, only, json);
  const KernelTable& k = kernels::kernels(card);
  dense(b, k, "product", 8192, 8192, 8192, bf);
  dense(b, k, "qkv", tokens, hidden, qkv, bf);
  dense(b, k, "attention out", tokens, heads * head_size, hidden, bf);
  dense(b, k, "head", 4096, hidden, words, f32);
  router_product(b, k);
  for (bool on_host : {false, true}) {
    grouped(b, k, "experts gate and up", hidden, 2 * expert_hidden, balanced, on_host);
    grouped(b, k, "experts down", expert_hidden, hidden, balanced, on_host);
  }
  grouped(b, k, "experts gate and up", hidden, 2 * expert_hidden, zipf, false);
  grouped(b, k, "experts gate and up", hidden, 2 * expert_hidden, four_hot, false);
  grouped(b, k, "experts down", expert_hidden, hidden, four_hot, false);
  attention(b, k);
  norms(b, k);
  activations(b, k);
  routing(b, k);
  vocabulary(b, k);
  pointwise_and_optimizer(b, k);
  products_of_experts(b, k);
  products_beside_blocks(b, k, device::cuda::cuda_stream(card.compute()).card());
  if (b.failures()) fmt::print("\n{} lines failed; see above\n", b.failures());
  return b.failures() ? 1 : 0;
}

}  // namespace
}  // namespace hexad::bench

int main(int argc, char** argv) {
  CLI::App app("Measures the rates of the CUDA kernels at the sizes of the recipe bench-gpu");
  std::string only, json;
  app.add_option("--only", only, "regular expression that selects the lines to measure");
  app.add_option("--json", json, "output file with one JSON object per line");
  CLI11_PARSE(app, argc, argv);
  try {
    return hexad::bench::run(only, json);
  } catch (const hexad::base::Error& e) {
    std::cerr << e.what() << '\n';
    return static_cast<int>(e.code());
  }
}
