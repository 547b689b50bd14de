// Compares grouped and dense matrix products of experts, by load (EPS-MoE, Fig. 5a): one call for all experts, and one
// call per expert.
//
//   expert_products [--experts 16] [--inputs 512] [--outputs 1536] [--rows 1,4,16,64,256,1024] [--threads 1] [--runs 9]
//                   [--parts 2,4]
//
// There are two loads, even and uneven. In the uneven load, every run draws each expert's number of rows, from 0.5 to
// 1.5 times --rows. Both kinds of calls alternate on the same rows. Seconds are medians of --runs. "gain" is the median
// over the runs of the ratio of grouped to dense seconds. If the gain is above 1, dense products are faster.
//
// --parts: instead compares two divisions of the grouped forward products in f32 into N parts, under the even load
// (EPS-MoE, Fig. 9): N groups of experts, and N blocks of columns of the input. The products of the blocks of columns
// are summed. Prints one line per run, with fields separated by tabs: "parts", run, N, rows of an expert, seconds
// undivided, by experts and by columns.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "framework/base/median.h"
#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/products.h"

namespace hexad::bench {
namespace {

using base::Dtype;
using kernels::GroupOffsets;
using kernels::Write;
using tensor::Tensor;

struct Options {
  int64_t experts = 16, inputs = 512, outputs = 1536;
  std::vector<int64_t> rows{1, 4, 16, 64, 256, 1024}, parts;
  int threads = 1, runs = 9;
};

enum class GemmPass : uint8_t { forward, input_gradient, weight_gradient };
constexpr std::pair<GemmPass, const char*> passes[] = {{GemmPass::forward, "forward"},
                                                       {GemmPass::input_gradient, "input gradient"},
                                                       {GemmPass::weight_gradient, "weight gradient"}};

template <class Work>
double timed(device::DeviceContext& context, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  context.compute().synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Products {
 public:
  Products(const Options& o, Dtype dtype)
      : options_(o),
        weight_(filled({o.experts, o.outputs, o.inputs}, dtype)),
        gradient_(filled({o.experts, o.outputs, o.inputs}, Dtype::f32)) {
    const int64_t most = o.experts * (*std::max_element(o.rows.begin(), o.rows.end()) * 3 / 2 + 1);
    x_ = filled({most, o.inputs}, dtype), y_ = filled({most, o.outputs}, dtype);
  }

  void compare(int64_t rows, bool even) {
    for (const auto& [pass, name] : passes) {
      std::vector<double> grouped, dense, gain;
      for (int run = -1; run < options_.runs; ++run) {  // the first run allocates memory
        const std::vector<int64_t> offsets = load(rows, even);
        const bool grouped_first = run % 2 == 0;
        double seconds[2];
        for (bool is_dense : {!grouped_first, grouped_first})
          seconds[is_dense ? 1 : 0] =
              timed(context_, [&, p = pass] { is_dense ? dense_calls(p, offsets) : grouped_call(p, offsets); });
        if (run < 0) continue;
        grouped.push_back(seconds[0]), dense.push_back(seconds[1]), gain.push_back(seconds[0] / seconds[1]);
      }
      fmt::print("{:<5} {:<16} {:<7} {:>6} {:>11.6f} {:>11.6f} {:>6.2f}\n", name_of(weight_.dtype()), name,
                 even ? "even" : "uneven", rows, base::median(grouped), base::median(dense), base::median(gain));
      std::fflush(stdout);
    }
  }

 private:
  Tensor filled(base::Shape shape, Dtype dtype) { return Tensor::zeros(shape, dtype, context_); }

  std::vector<int64_t> load(int64_t rows, bool even) {
    std::uniform_int_distribution<int64_t> uneven((rows + 1) / 2, rows + rows / 2);
    std::vector<int64_t> offsets{0};
    for (int64_t e = 0; e < options_.experts; ++e) offsets.push_back(offsets.back() + (even ? rows : uneven(random_)));
    return offsets;
  }

  void grouped_call(GemmPass pass, const std::vector<int64_t>& offsets) {
    const auto& k = kernels::kernels(x_.device()).grouped_matmul;
    const Tensor x = x_.slice(0, 0, offsets.back()), y = y_.slice(0, 0, offsets.back());
    device::Stream& s = context_.compute();
    const auto groups = GroupOffsets::on_host(offsets);
    if (pass == GemmPass::forward) k.forward(s, y, x, weight_, groups, Write::replace);
    if (pass == GemmPass::input_gradient) k.input_gradient(s, x, y, weight_, groups, Write::replace);
    if (pass == GemmPass::weight_gradient) k.weight_gradient(s, gradient_, y, x, groups, Write::add);
  }

  void dense_calls(GemmPass pass, const std::vector<int64_t>& offsets) {
    const auto& k = kernels::kernels(x_.device()).matmul;
    device::Stream& s = context_.compute();
    for (int64_t e = 0; e < options_.experts; ++e) {
      const size_t i = e;
      const Tensor x = x_.slice(0, offsets[i], offsets[i + 1]), y = y_.slice(0, offsets[i], offsets[i + 1]);
      const Tensor w = kernels::expert_matrix(weight_, e);
      if (pass == GemmPass::forward) k.forward(s, y, x, w, Write::replace);
      if (pass == GemmPass::input_gradient) k.input_gradient(s, x, y, w, Write::replace);
      if (pass == GemmPass::weight_gradient)
        k.weight_gradient(s, kernels::expert_matrix(gradient_, e), y, x, Write::add);
    }
  }

  const Options options_;
  device::DeviceContext context_;
  Tensor weight_, gradient_, x_, y_;
  std::mt19937_64 random_{20241105};
};

/// The grouped forward products of all experts: undivided, divided into N parts by experts, and divided into N parts by
/// columns.
class DividedProducts {
 public:
  DividedProducts(const Options& o, int64_t parts, int64_t rows)
      : options_(o),
        parts_(parts),
        rows_(rows),
        x_(filled({o.experts * rows, o.inputs})),
        y_(filled({o.experts * rows, o.outputs})),
        weight_(filled({o.experts, o.outputs, o.inputs})) {
    for (int64_t part = 0; part < parts; ++part) {
      x_columns_.push_back(filled({o.experts * rows, o.inputs / parts}));
      weight_columns_.push_back(filled({o.experts, o.outputs, o.inputs / parts}));
    }
  }

  void compare() {
    for (int run = 0; run <= options_.runs; ++run) {  // the first run allocates memory
      double seconds[3]{};
      for (int i = 0; i < 3; ++i) {
        const int way = (run + i) % 3;
        seconds[way] = timed(context_, [&] { way == 0 ? undivided() : way == 1 ? by_experts() : by_columns(); });
      }
      if (run == 0) continue;
      fmt::print("parts\t{}\t{}\t{}\t{:.6f}\t{:.6f}\t{:.6f}\n", run, parts_, rows_, seconds[0], seconds[1], seconds[2]);
      std::fflush(stdout);
    }
  }

 private:
  Tensor filled(base::Shape shape) { return Tensor::zeros(shape, Dtype::f32, context_); }

  void multiply(const Tensor& y, const Tensor& x, const Tensor& weight, Write write) {
    std::vector<int64_t> offsets;
    for (int64_t e = 0; e <= weight.dim(0); ++e) offsets.push_back(e * rows_);
    kernels::kernels(x.device())
        .grouped_matmul.forward(context_.compute(), y, x, weight, GroupOffsets::on_host(offsets), write);
  }

  void undivided() { multiply(y_, x_, weight_, Write::replace); }
  void by_experts() {
    const int64_t experts = options_.experts / parts_;
    for (int64_t e = 0; e < options_.experts; e += experts)
      multiply(y_.slice(0, e * rows_, (e + experts) * rows_), x_.slice(0, e * rows_, (e + experts) * rows_),
               weight_.slice(0, e, e + experts), Write::replace);
  }
  void by_columns() {
    for (size_t part = 0; part < x_columns_.size(); ++part)
      multiply(y_, x_columns_[part], weight_columns_[part], part == 0 ? Write::replace : Write::add);
  }

  const Options options_;
  const int64_t parts_, rows_;
  device::DeviceContext context_;
  Tensor x_, y_, weight_;
  std::vector<Tensor> x_columns_, weight_columns_;  // columns of each part
};

int run(int argc, char** argv) {
  Options o;
  CLI::App app("Compares grouped and dense matrix products of experts");
  app.add_option("--experts", o.experts, "number of experts")->check(CLI::PositiveNumber);
  app.add_option("--inputs", o.inputs, "number of inputs of a product")->check(CLI::PositiveNumber);
  app.add_option("--outputs", o.outputs, "number of outputs of a product")->check(CLI::PositiveNumber);
  app.add_option("--rows", o.rows, "average numbers of rows of an expert, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", o.threads, "number of threads")->check(CLI::PositiveNumber);
  app.add_option("--runs", o.runs, "number of repetitions")->check(CLI::PositiveNumber);
  app.add_option("--parts", o.parts, "numbers of parts of the forward products, separated by commas")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  kernels::cpu::set_thread_count(o.threads);
  for (const int64_t parts : o.parts)
    if (o.experts % parts != 0 || o.inputs % parts != 0) {
      fmt::print(stderr, "expert_products: --parts has {}, expected divisors of --experts ({}) and of --inputs ({})\n",
                 parts, o.experts, o.inputs);
      return 2;
    }
  for (const int64_t parts : o.parts)
    for (const int64_t rows : o.rows) DividedProducts(o, parts, rows).compare();
  if (!o.parts.empty()) return 0;
  fmt::print("{}\n{} experts, {} x {}, {} threads\n", kernels::cpu::products_description(), o.experts, o.inputs,
             o.outputs, o.threads);
  fmt::print("{:<5} {:<16} {:<7} {:>6} {:>11} {:>11} {:>6}\n", "", "", "load", "rows", "grouped s", "dense s", "gain");
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    Products products(o, dtype);
    for (bool even : {true, false})
      for (int64_t rows : o.rows) products.compare(rows, even);
  }
  return 0;
}

}  // namespace
}  // namespace hexad::bench

int main(int argc, char** argv) { return hexad::bench::run(argc, argv); }
