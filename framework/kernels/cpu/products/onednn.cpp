#include "framework/kernels/cpu/products/onednn.h"

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>
#include <memory>
#include <mutex>
#include <optional>

#include "framework/kernels/cpu/parallel.h"
#include "framework/kernels/cpu/products/scratch.h"

// oneDNN 2 (matmul::desc; version 3 dropped it).
namespace hexad::kernels::cpu::onednn {

using namespace base;
namespace {

using base::Dtype;
using dnnl::memory;

/// An immutable handle.
const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::data_type type_of(Dtype d) { return d == Dtype::bf16 ? memory::data_type::bf16 : memory::data_type::f32; }

memory::desc describe(const Operand& o, int64_t rows, int64_t columns) {
  return {{rows, columns}, type_of(o.dtype), memory::dims{o.row, o.column}};
}

memory view(const memory::desc& desc, const void* data) { return {desc, engine(), const_cast<void*>(data)}; }

dnnl::matmul::primitive_desc plan(const GemmTile& p, const memory::desc& b) {
  const memory::desc c({p.m, p.n}, type_of(p.c.dtype), memory::dims{p.c.stride, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  return {{describe(p.a, p.m, p.k), b, c}, attributes, engine()};
}

struct Packed final : PackCache::Entry {
  explicit Packed(const GemmTile& p)
      : b(plan(p, memory::desc({p.k, p.n}, memory::data_type::bf16, memory::format_tag::any)).weights_desc(),
          engine()) {
    const memory plain = view(describe(p.b, p.k, p.n), p.b.data);
    dnnl::stream stream(engine());
    dnnl::reorder(plain, b).execute(stream, const_cast<memory&>(plain), b);
    stream.wait();
  }
  memory b;
};

// Rows that are multiplied at once, what is left over with the last of them: every number of rows is compiled. The
// order of a sum depends on that number, which therefore must not depend on the number of threads.
constexpr int64_t piece_rows = 128;

GemmTile rows_of(const GemmTile& p, int64_t begin, int64_t end) {
  GemmTile part = p;
  part.m = end - begin;
  part.a.data = static_cast<const std::byte*>(p.a.data) + begin * p.a.row * base::size_of(p.a.dtype);
  part.c.data = static_cast<std::byte*>(p.c.data) + begin * p.c.stride * base::size_of(p.c.dtype);
  return part;
}

void execute(const GemmTile& p, const memory& b) {
  const auto planned = plan(p, b.get_desc());
  const memory::desc working = planned.scratchpad_desc();
  dnnl::stream stream(engine());
  dnnl::matmul(planned).execute(
      stream, {{DNNL_ARG_SRC, view(planned.src_desc(), p.a.data)},
               {DNNL_ARG_WEIGHTS, b},
               {DNNL_ARG_DST, view(planned.dst_desc(), p.c.data)},
               {DNNL_ARG_SCRATCHPAD, view(working, scratch(static_cast<int64_t>(working.get_size())))}});
  stream.wait();
}

// What threads ask of oneDNN, each on itself alone: it would take as many threads of its own as the machine has cores,
// whatever this rank may use, and they spin.
class Attempts {
 public:
  template <class Call>
  void make(const Call& call) {
    thread_local const bool alone = (omp_set_num_threads(1), true);
    try {
      if (alone) call();
    } catch (const std::exception& e) {  // also of memory: helper threads must not throw
      const std::lock_guard lock(mutex_);
      failure_ = e.what();
    }
  }
  const std::string& failure() const { return failure_; }

 private:
  std::mutex mutex_;
  std::string failure_;
};

}  // namespace

bool available() { return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core; }

bool preferred() {
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa >= dnnl::cpu_isa::avx512_core_amx || (isa >= dnnl::cpu_isa::avx512_core_bf16 && __builtin_cpu_is("amd"));
}

std::string description() {
  const auto* version = dnnl::version();
  const char* isa = "AVX2";
  if (dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core) isa = "AVX-512";
  if (dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16) isa = "AVX-512 BF16";
  if (dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_amx) isa = "AMX";
  return base::cat("oneDNN ", version->major, ".", version->minor, ".", version->patch, " with ", isa);
}

void multiply(const GemmTile& p, PackCache* packs, uint64_t key) {
  Attempts attempts;
  std::optional<memory> b;
  attempts.make([&] {
    b = packs ? static_cast<Packed&>(packs->get(key, [&] { return std::make_unique<Packed>(p); })).b
              : view(describe(p.b, p.k, p.n), p.b.data);
  });
  const int64_t pieces = std::max<int64_t>(p.m / piece_rows, 1);
  const auto first_row = [&](int64_t piece) { return piece == pieces ? p.m : piece * piece_rows; };
  const int64_t threads = threads_for(static_cast<double>(p.m) * static_cast<double>(p.n * p.k));
  if (b)
    parallel_for(pieces, pieces / threads, [&](int64_t begin, int64_t end) {
      attempts.make([&] {
        for (int64_t i = begin; i < end; ++i) execute(rows_of(p, first_row(i), first_row(i + 1)), *b);
      });
    });
  if (const std::string failure = attempts.failure(); !failure.empty())
    base::fail(base::ExitCode::resource, "[matmul] oneDNN could not multiply [", p.m, ", ", p.k, "] by [", p.k, ", ",
               p.n, "] in bf16: ", failure);
}

}  // namespace hexad::kernels::cpu::onednn
