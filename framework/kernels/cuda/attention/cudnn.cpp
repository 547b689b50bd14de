// cuDNN's fused attention through its graph API. The only file that includes the frontend: it takes long to compile.
// NVIDIA's guide: docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#include <cudnn_frontend.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>
#include <vector>

#include "framework/device/cuda/cuda_stream.h"
#include "framework/kernels/cuda/attention/calls.h"
#include "framework/tensor/device_access.h"

namespace hexad::kernels::cuda {
namespace {

using cudnn_frontend::DataType_t;
using cudnn_frontend::HeurMode_t;
using cudnn_frontend::graph::Graph;
using cudnn_frontend::graph::SDPA_attributes;
using cudnn_frontend::graph::SDPA_backward_attributes;
using cudnn_frontend::graph::Tensor_attributes;
using Operand = std::shared_ptr<Tensor_attributes>;
using Dims = std::vector<int64_t>;

/// Names of a graph's operands.
enum Id : int64_t { q_id = 1, k_id, v_id, out_id, stats_id, dout_id, dq_id, dk_id, dv_id };

struct Plan {
  std::unique_ptr<Graph> graph;  // null: cuDNN refused, do not ask again
  int64_t workspace = 0;
};

struct KeyHash {
  size_t operator()(const Dims& key) const {
    size_t hash = key.size();
    for (int64_t k : key) hash = (hash ^ static_cast<size_t>(k)) * 0x9e3779b97f4a7c15u;
    return hash;
  }
};

/// Kept by the card.
struct Cudnn {
  cudnnHandle_t handle = nullptr;  // null: the library does not work here
  std::unordered_map<Dims, Plan, KeyHash> plans;

  Cudnn() {
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) handle = nullptr;
  }
  ~Cudnn() {
    if (handle) cudnnDestroy(handle);
  }
  Cudnn(const Cudnn&) = delete;
  Cudnn& operator=(const Cudnn&) = delete;
};

/// As cuDNN names its dimensions.
struct Problem {
  int64_t b, s;  // sequences, positions

  Dims dims(const Tensor& t) const { return {b, t.dim(1), s, t.dim(2)}; }
  Dims strides(const Tensor& t) const { return {s * t.strides()[0], t.strides()[1], t.strides()[0], 1}; }

  Operand input(Graph& graph, const char* name, Id id, const Tensor& t) const {
    return graph.tensor(Tensor_attributes().set_name(name).set_uid(id).set_dim(dims(t)).set_stride(strides(t)));
  }
  void output(const Operand& operand, Id id, const Tensor& t) const {
    operand->set_output(true).set_uid(id).set_dim(dims(t)).set_stride(strides(t));
  }
};

/// Bytes that a plan may ask for. What asks for more is backward when it shall be deterministic: before 9.25 cuDNN then
/// keeps all B H S^2 gradients of scores in bf16 (2.1 GB for 16 heads of 4 x 4096), and is slower. Without, its results
/// differ from run to run, and it takes 2.06 ms there for forward and backward against 5.2 ms of the deterministic
/// flash attention of PyTorch.
constexpr int64_t most_workspace = int64_t{4} << 30;

/// No masks but a causal one from the top left, rows on multiples of 16 bytes; the rest is asked of cuDNN.
template <class... Tensors>
bool may_suit(const AttentionShape& shape, const Tensor& first, const Tensor& last, const Tensor& q,
              const Tensors&... others) {
  const auto on_16_bytes = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(device_raw(t)) % 16 == 0 && t.strides()[0] % 8 == 0 && t.strides()[1] % 8 == 0;
  };
  return q.dtype() == Dtype::bf16 && !first.defined() && !last.defined() && shape.queries == shape.keys &&
         shape.queries > 1 && shape.query_offset == 0 && q.dim(2) % 8 == 0 && on_16_bytes(q) &&
         (on_16_bytes(others) && ...);
}

template <class... Tensors>
Dims key_of(bool backward, const AttentionShape& shape, const Tensor& q, const Tensor& k, const Tensors&... others) {
  Dims key{backward, shape.sequences, shape.queries, std::bit_cast<int64_t>(shape.scale), q.dim(1),
           k.dim(1), q.dim(2),        shape.causal,  backward && shape.deterministic};
  for (const Tensor* t : {&q, &k, &others...}) key.insert(key.end(), {t->strides()[0], t->strides()[1]});
  return key;
}

/// All sums and everything between two products in float.
std::unique_ptr<Graph> new_graph() {
  auto graph = std::make_unique<Graph>();
  graph->set_io_data_type(DataType_t::BFLOAT16)
      .set_intermediate_data_type(DataType_t::FLOAT)
      .set_compute_data_type(DataType_t::FLOAT);
  return graph;
}

std::unique_ptr<Graph> forward_graph(const AttentionForward& c) {
  const Problem p{c.shape.sequences, c.shape.queries};
  auto graph = new_graph();
  const Operand q = p.input(*graph, "q", q_id, c.q), k = p.input(*graph, "k", k_id, c.k),
                v = p.input(*graph, "v", v_id, c.v);
  auto [out, stats] = graph->sdpa(q, k, v,
                                  SDPA_attributes()
                                      .set_name("attention")
                                      .set_generate_stats(true)
                                      .set_attn_scale(static_cast<float>(c.shape.scale))
                                      .set_causal_mask(c.shape.causal));
  p.output(out, out_id, c.out);
  // max + ln(sum) of the scaled scores, as ours; written with our strides since 9.12, refused by the frontend before.
  const int64_t heads = c.q.dim(1);
  stats->set_output(true).set_uid(stats_id).set_data_type(DataType_t::FLOAT);
  stats->set_dim({p.b, heads, p.s, 1}).set_stride({p.s * heads, 1, heads, 1});
  return graph;
}

std::unique_ptr<Graph> backward_graph(const AttentionBackward& c) {
  const Problem p{c.shape.sequences, c.shape.queries};
  auto graph = new_graph();
  const Operand q = p.input(*graph, "q", q_id, c.q), k = p.input(*graph, "k", k_id, c.k),
                v = p.input(*graph, "v", v_id, c.v), out = p.input(*graph, "out", out_id, c.out),
                dout = p.input(*graph, "dout", dout_id, c.dout);
  const int64_t heads = c.q.dim(1);
  const Operand stats = graph->tensor(Tensor_attributes()
                                          .set_name("stats")
                                          .set_uid(stats_id)
                                          .set_data_type(DataType_t::FLOAT)
                                          .set_dim({p.b, heads, p.s, 1})
                                          .set_stride({heads * p.s, p.s, 1, 1}));  // the only layout read before 9.26
  auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, out, dout, stats,
                                           SDPA_backward_attributes()
                                               .set_name("attention_backward")
                                               .set_attn_scale(static_cast<float>(c.shape.scale))
                                               .set_causal_mask(c.shape.causal)
                                               .set_deterministic_algorithm(c.shape.deterministic));
  p.output(dq, dq_id, c.dq);
  p.output(dk, dk_id, c.dk);
  p.output(dv, dv_id, c.dv);
  return graph;
}

/// The plan for a key, made at first use; null where cuDNN has none.
template <class MakeGraph>
const Plan* plan_for(Cudnn& cudnn, const Dims& key, const MakeGraph& make_graph) {
  auto [at, is_new] = cudnn.plans.try_emplace(key);
  Plan& plan = at->second;
  if (is_new) {
    auto graph = make_graph();
    const bool built = graph->build(cudnn.handle, {HeurMode_t::A}).is_good() &&
                       graph->get_workspace_size(plan.workspace).is_good() && plan.workspace <= most_workspace;
    if (built) plan.graph = std::move(graph);
  }
  return plan.graph ? &plan : nullptr;
}

void* raw(const Tensor& t) { return device_raw(t); }

void execute(Stream& stream, Cudnn& cudnn, const Plan& plan, std::unordered_map<int64_t, void*> operands,
             Device device) {
  const Tensor workspace = Tensor::empty({std::max<int64_t>(plan.workspace, 1)}, Dtype::u8, device);
  const cudnnStatus_t status = cudnnSetStream(cudnn.handle, device::cuda::cuda_stream(stream).handle());
  require(status == CUDNN_STATUS_SUCCESS, "[attention] cudnnSetStream: ", cudnnGetErrorString(status));
  auto result = plan.graph->execute(cudnn.handle, operands, raw(workspace));
  require(result.is_good(), "[attention] cuDNN: ", result.get_message());
}

}  // namespace

bool cudnn_attention(Stream& stream, const AttentionForward& c) {
  if (!may_suit(c.shape, c.first, c.last, c.q, c.k, c.v, c.out)) return false;
  auto& cudnn = device::cuda::cuda_stream(stream).card().shared<Cudnn>();
  if (!cudnn.handle) return false;
  const Plan* plan = plan_for(cudnn, key_of(false, c.shape, c.q, c.k, c.v, c.out), [&] { return forward_graph(c); });
  if (!plan) return false;
  execute(stream, cudnn, *plan,
          {{q_id, raw(c.q)}, {k_id, raw(c.k)}, {v_id, raw(c.v)}, {out_id, raw(c.out)}, {stats_id, raw(c.log_sum_exp)}},
          c.q.device());
  return true;
}

bool cudnn_attention(Stream& stream, const AttentionBackward& c) {
  if (!may_suit(c.shape, c.first, c.last, c.q, c.k, c.v, c.out, c.dout, c.dq, c.dk, c.dv)) return false;
  auto& cudnn = device::cuda::cuda_stream(stream).card().shared<Cudnn>();
  if (!cudnn.handle) return false;
  const Plan* plan = plan_for(cudnn, key_of(true, c.shape, c.q, c.k, c.v, c.out, c.dout, c.dq, c.dk, c.dv),
                              [&] { return backward_graph(c); });
  if (!plan) return false;
  const Tensor stats = Tensor::empty({c.shape.sequences, c.q.dim(1), c.shape.queries}, Dtype::f32, c.q.device());
  heads_first(stream, stats, c.log_sum_exp);
  execute(stream, cudnn, *plan,
          {{q_id, raw(c.q)},
           {k_id, raw(c.k)},
           {v_id, raw(c.v)},
           {out_id, raw(c.out)},
           {stats_id, raw(stats)},
           {dout_id, raw(c.dout)},
           {dq_id, raw(c.dq)},
           {dk_id, raw(c.dk)},
           {dv_id, raw(c.dv)}},
          c.q.device());
  return true;
}

}  // namespace hexad::kernels::cuda
