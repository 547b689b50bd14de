#include "tools/hexad/onednn_product.h"

#include <omp.h>

#include <dnnl.hpp>
#include <memory>

#include "framework/kernels/cpu/parallel.h"

// Requires version 2 of oneDNN, because version 3 has no matmul::desc.
namespace hexad::app {
namespace {

using base::Dtype;
using dnnl::memory;
using tensor::Tensor;

memory::data_type type_of(const Tensor& t) {
  return t.dtype() == Dtype::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// A matrix product that is prepared for one weight matrix and one number of rows.
class Product {
 public:
  Product(const Tensor& out, const Tensor& x, const Tensor& w)
      : weights_(w),
        plan_({{{x.dim(0), x.dim(1)}, type_of(x), memory::format_tag::ab},
               {{w.dim(1), w.dim(0)}, type_of(w), memory::format_tag::any},
               {{out.dim(0), out.dim(1)}, type_of(out), memory::format_tag::ab}},
              engine_),
        packed_(plan_.weights_desc(), engine_) {
    memory plain({{w.dim(1), w.dim(0)}, type_of(w), memory::format_tag::ba}, engine_, w.raw());
    dnnl::reorder(plain, packed_).execute(stream_, plain, packed_);
    stream_.wait();
  }

  bool is_for(const Tensor& x, const Tensor& w) const {
    return weights_.storage() == w.storage() && plan_.src_desc().dims()[0] == x.dim(0);
  }
  void run(const Tensor& out, const Tensor& x) {
    product_.execute(stream_, {{DNNL_ARG_SRC, memory(plan_.src_desc(), engine_, x.raw())},
                               {DNNL_ARG_WEIGHTS, packed_},
                               {DNNL_ARG_DST, memory(plan_.dst_desc(), engine_, out.raw())}});
    stream_.wait();
  }

 private:
  Tensor weights_;  // kept alive, so that no other tensor can get the same storage and be mistaken for it
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul::primitive_desc plan_;
  memory packed_;
  dnnl::matmul product_{plan_};
};

}  // namespace

std::string onednn_description() {
  const auto* version = dnnl::version();
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  const char* name = "AVX2";
  if (isa >= dnnl::cpu_isa::avx512_core) name = "AVX-512";
  if (isa >= dnnl::cpu_isa::avx512_core_bf16) name = "AVX-512 BF16";
  if (isa >= dnnl::cpu_isa::avx512_core_amx) name = "AMX";
  return base::cat("oneDNN ", version->major, ".", version->minor, ".", version->patch, " with ", name,
                   ", weights packed beforehand");
}

bool onednn_multiplies(Dtype dtype) {
  if (dtype == Dtype::bf16) return dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return dtype == Dtype::f32;
}

kernels::Multiply onednn_product() {
  return [product = std::shared_ptr<Product>()](const Tensor& out, const Tensor& x, const Tensor& w) mutable {
    omp_set_num_threads(kernels::cpu::thread_count());
    if (!product || !product->is_for(x, w)) product = std::make_shared<Product>(out, x, w);
    product->run(out, x);
  };
}

}  // namespace hexad::app
