#include "framework/kernels/cpu/products/onednn.h"

#include <dnnl.hpp>

#include "framework/kernels/cpu/products/scratch.h"

// oneDNN 2 (matmul::desc; version 3 dropped it).
namespace hexad::kernels::cpu::onednn {
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
  try {
    const memory b = packs ? static_cast<Packed&>(packs->get(key, [&] { return std::make_unique<Packed>(p); })).b
                           : view(describe(p.b, p.k, p.n), p.b.data);
    const auto planned = plan(p, b.get_desc());
    const memory::desc working = planned.scratchpad_desc();
    dnnl::stream stream(engine());
    dnnl::matmul(planned).execute(
        stream, {{DNNL_ARG_SRC, view(planned.src_desc(), p.a.data)},
                 {DNNL_ARG_WEIGHTS, b},
                 {DNNL_ARG_DST, view(planned.dst_desc(), p.c.data)},
                 {DNNL_ARG_SCRATCHPAD, view(working, scratch(static_cast<int64_t>(working.get_size())))}});
    stream.wait();
  } catch (const dnnl::error& e) {
    base::fail(base::ExitCode::resource, "[matmul] oneDNN could not multiply [", p.m, ", ", p.k, "] by [", p.k, ", ",
               p.n, "] in bf16: ", e.what());
  }
}

}  // namespace hexad::kernels::cpu::onednn
