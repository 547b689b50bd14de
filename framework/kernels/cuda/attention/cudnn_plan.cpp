// Attention as a cuDNN graph. Only this file includes cuDNN's frontend, which is slow to compile. NVIDIA's guide:
// docs.nvidia.com/deeplearning/cudnn/frontend/latest/operations/Attention.html
#include "framework/kernels/cuda/attention/cudnn_plan.h"

#include <cudnn_frontend.h>

#include <vector>

#include "framework/base/error.h"

namespace hexad::kernels::cuda {
namespace {

using base::cat;
using base::require;
using cudnn_frontend::DataType_t;
using cudnn_frontend::DeviceProperties;
using cudnn_frontend::error_t;
using cudnn_frontend::HeurMode_t;
using cudnn_frontend::graph::Graph;
using cudnn_frontend::graph::SDPA_attributes;
using cudnn_frontend::graph::SDPA_backward_attributes;
using cudnn_frontend::graph::Tensor_attributes;
using Operand = std::shared_ptr<Tensor_attributes>;
using Dims = std::vector<int64_t>;
using Id = AttentionOperand;

/// Makes the graph of a problem. If there are documents, each document is one sequence of at most `positions` tokens
/// for cuDNN. The card then reads the offset at which each document begins (a ragged tensor).
class GraphMaker {
 public:
  GraphMaker(Graph& graph, const AttentionProblem& problem) : graph_(graph), p_(problem) {
    // All sums, and all values between two products, are f32.
    graph_.set_io_data_type(DataType_t::BFLOAT16)
        .set_intermediate_data_type(DataType_t::FLOAT)
        .set_compute_data_type(DataType_t::FLOAT);
  }

  void make() { p_.backward ? backward() : forward(); }

 private:
  int64_t batch() const { return p_.documents > 0 ? p_.documents : p_.sequences; }

  Tensor_attributes indices(const std::string& name, int64_t id, int64_t count, DataType_t type) const {
    return Tensor_attributes()
        .set_name(name)
        .set_uid(id)
        .set_dim({count, 1, 1, 1})
        .set_stride({1, 1, 1, 1})
        .set_data_type(type);
  }
  void describe(Tensor_attributes& t, Id id, int64_t heads, int64_t size, HeadStrides strides) {
    t.set_uid(id_of(id)).set_dim({batch(), heads, p_.positions, size});
    t.set_stride({p_.positions * strides.token, strides.head, strides.token, 1});
    if (p_.documents == 0) return;
    const std::string name = cat("offsets ", id_of(id));
    t.set_ragged_offset(graph_.tensor(indices(name, id_of_offsets(id), batch() + 1, DataType_t::INT64)));
  }
  Operand input(const char* name, Id id, int64_t heads, HeadStrides strides) {
    Tensor_attributes t;
    t.set_name(name);
    describe(t, id, heads, p_.size, strides);
    return graph_.tensor(t);
  }
  void output(const Operand& operand, Id id, int64_t heads, HeadStrides strides) {
    operand->set_output(true);
    describe(*operand, id, heads, p_.size, strides);
  }
  /// Returns the strides of row statistics in the order of the tokens.
  HeadStrides by_token() const { return {p_.heads, 1}; }

  template <class Options>
  Options options(const char* name) {
    Options o;
    o.set_name(name).set_attn_scale(p_.scale).set_causal_mask(p_.causal);
    if (p_.documents == 0) return o;
    const auto lengths = [&](const char* of, Id id) {
      return graph_.tensor(indices(of, id_of(id), batch(), DataType_t::INT32));
    };
    o.set_padding_mask(true);
    o.set_seq_len_q(lengths("query lengths", Id::query_lengths))
        .set_seq_len_kv(lengths("key lengths", Id::key_lengths));
    return o;
  }

  void forward() {
    const Operand q = input("q", Id::q, p_.heads, p_.q), k = input("k", Id::k, p_.key_heads, p_.k),
                  v = input("v", Id::v, p_.key_heads, p_.v);
    auto [out, stats] = graph_.sdpa(q, k, v, options<SDPA_attributes>("attention").set_generate_stats(true));
    output(out, Id::out, p_.heads, p_.out);
    // cuDNN supports these strides for statistics from version 9.12 on. The frontend of older versions refuses them.
    stats->set_output(true).set_data_type(DataType_t::FLOAT);
    describe(*stats, Id::stats, p_.heads, 1, by_token());
  }

  void backward() {
    const Operand q = input("q", Id::q, p_.heads, p_.q), k = input("k", Id::k, p_.key_heads, p_.k),
                  v = input("v", Id::v, p_.key_heads, p_.v), out = input("out", Id::out, p_.heads, p_.out),
                  dout = input("dout", Id::dout, p_.heads, p_.dout);
    Tensor_attributes stats;
    stats.set_name("stats").set_data_type(DataType_t::FLOAT);
    describe(stats, Id::stats, p_.heads, 1, by_token());
    // Without offsets, cuDNN supports only this layout before version 9.26.
    if (p_.documents == 0) stats.set_stride({p_.heads * p_.positions, p_.positions, 1, 1});
    auto o = options<SDPA_backward_attributes>("attention_backward").set_deterministic_algorithm(p_.deterministic);
    // Without these limits, cuDNN would reserve workspace for every document at the full length.
    const int64_t tokens = p_.sequences * p_.positions;
    if (p_.documents > 0) o.set_max_total_seq_len_q(tokens).set_max_total_seq_len_kv(tokens);
    auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, graph_.tensor(stats), o);
    output(dq, Id::dq, p_.heads, p_.dq);
    output(dk, Id::dk, p_.key_heads, p_.dk);
    output(dv, Id::dv, p_.key_heads, p_.dv);
  }

  Graph& graph_;
  const AttentionProblem& p_;
};

/// Returns the reason why there is no plan for the graph; empty if there is a plan. `workspace` receives the plan's
/// workspace in bytes.
std::string refusal(error_t built, const Graph& graph, int64_t& workspace) {
  if (built.is_bad()) return built.get_message();
  if (error_t asked = graph.get_workspace_size(workspace); asked.is_bad()) return asked.get_message();
  if (workspace <= CudnnPlan::max_workspace) return {};
  return cat("needs a workspace of ", workspace, " bytes; expected at most ", CudnnPlan::max_workspace);
}

}  // namespace

struct CudnnPlan::Made {
  Graph graph;
};

CudnnHandle::CudnnHandle() {
  if (cudnnCreate(&handle_) != CUDNN_STATUS_SUCCESS) handle_ = nullptr;
}
CudnnHandle::~CudnnHandle() {
  if (handle_) cudnnDestroy(handle_);
}
int64_t CudnnHandle::version() const { return static_cast<int64_t>(cudnnGetVersion()); }

CudnnPlan::CudnnPlan(const AttentionProblem& problem, const CudnnHandle& handle) : made_(std::make_unique<Made>()) {
  GraphMaker(made_->graph, problem).make();
  refused_ = refusal(made_->graph.build(handle.get(), {HeurMode_t::A}), made_->graph, workspace_);
  if (!refused_.empty()) made_.reset();
}

CudnnPlan::CudnnPlan(const AttentionProblem& problem, const DescribedCard& card) : made_(std::make_unique<Made>()) {
  const auto properties = std::make_shared<DeviceProperties>();
  error_t known = properties->deserialize({card.properties.begin(), card.properties.end()});
  require(known.is_good(), "[attention] cuDNN cannot read the description of a card: ", known.get_message());
  made_->graph.set_device_properties(properties).set_sm_version(card.generation);
  GraphMaker(made_->graph, problem).make();
  refused_ = refusal(made_->graph.build({HeurMode_t::A}), made_->graph, workspace_);
  if (!refused_.empty()) made_.reset();
}

CudnnPlan::CudnnPlan(CudnnPlan&&) noexcept = default;
CudnnPlan::~CudnnPlan() = default;

void CudnnPlan::execute(const CudnnHandle& handle, CUstream_st* stream, AttentionOperands operands,
                        void* workspace) const {
  const cudnnStatus_t status = cudnnSetStream(handle.get(), stream);
  require(status == CUDNN_STATUS_SUCCESS,
          "[attention] cuDNN refuses the stream (cudnnSetStream): ", cudnnGetErrorString(status));
  error_t result = made_->graph.execute(handle.get(), operands, workspace);
  require(result.is_good(), "[attention] cuDNN cannot run its plan: ", result.get_message());
}

}  // namespace hexad::kernels::cuda
