#include "framework/kernels/cpu/simd/optimizer_loops.h"

#include "framework/base/main_weight.h"
#include "framework/base/random_rounding.h"
#include "framework/kernels/cpu/simd/math.h"

namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

// Updates the main weights and the model's copy. Calls keep(i, m, v) with the new moments of element i.
template <class T, class A, class M, class G, class Keep>
void update_all(A* main, const M* m, const M* v, T* weights, const G* gradient, const AdamwConstants<A>& constants,
                int64_t n, const Keep& keep) {
  const AdamwConstants<A> c = constants;  // a copy, because the compiler assumes that stores to main change `constants`
  auto update = [=](int64_t i) {
    const A g = c.factor * static_cast<A>(load(gradient, i));
    const A mi = c.beta1 * load(m, i) + c.one_minus_beta1 * g;
    const A vi = c.beta2 * load(v, i) + c.one_minus_beta2 * g * g;
    keep(i, mi, vi);
    return main[i] = c.keep * main[i] - c.step_size * mi / (sqrt_of(vi) * c.root_correction + c.eps);
  };
  if (weights) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(weights, i, update(i));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) update(i);
  }
}

template <class T, class A, class G>
void adamw(A* main, A* m, A* v, T* weights, const G* gradient, const AdamwConstants<A>& constants, int64_t n) {
  update_all(main, m, v, weights, gradient, constants, n, [=](int64_t i, A mi, A vi) {
    m[i] = mi;
    v[i] = vi;
  });
}

template <class T, class G>
void bf16_moments(float* main, bf16* m, bf16* v, T* weights, const G* gradient, const AdamwConstants<float>& constants,
                  RandomBits random, int64_t n) {
  update_all(main, m, v, weights, gradient, constants, n, [=](int64_t i, float mi, float vi) {
    const uint32_t bits = base::random_bits(random.key, random.first + static_cast<uint32_t>(i));
    m[i].bits = base::bf16_bits_at_random(mi, bits);
    v[i].bits = base::bf16_bits_at_random(vi, bits >> 16);
  });
}

template <class T, class A, class G>
void sgd(A* main, T* weights, const G* gradient, A rate, int64_t n) {
  if (weights) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(weights, i, main[i] -= rate * static_cast<A>(load(gradient, i)));
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) main[i] -= rate * static_cast<A>(load(gradient, i));
  }
}

uint32_t bits_of(float v) { return __builtin_bit_cast(uint32_t, v); }
uint16_t bits_of(bf16 v) { return v.bits; }
void set_bits(float& v, uint32_t bits) { v = __builtin_bit_cast(float, bits); }
void set_bits(bf16& v, uint16_t bits) { v.bits = bits; }

template <class M>
void join(float* main, M* v, const bf16* weights, const bf16* rests, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const auto moment = bits_of(v[i]);
    main[i] = base::main_of(weights[i].bits, rests[i].bits, base::has_mark(moment));
    set_bits(v[i], base::with_mark(moment, false));
  }
}

template <class M>
void split(const float* main, M* v, bf16* rests, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    rests[i].bits = base::rest_of(main[i]);
    set_bits(v[i], base::with_mark(bits_of(v[i]), base::marked(main[i])));
  }
}

template <class M>
constexpr RestLoops<M> conversions{.join = join<M>, .split = split<M>};

template <class T>
constexpr OptimizerLoops<T> loops{
    .f32 = {.adamw = adamw<T, float, float>, .sgd = sgd<T, float, float>},
    .f32_from_bf16 = {.adamw = adamw<T, float, bf16>, .sgd = sgd<T, float, bf16>},
    .f64 = {.adamw = adamw<T, double, double>, .sgd = sgd<T, double, double>},
    .f64_from_bf16 = {.adamw = adamw<T, double, bf16>, .sgd = sgd<T, double, bf16>},
    .bf16_moments = bf16_moments<T, float>,
    .bf16_moments_from_bf16 = bf16_moments<T, bf16>,
};

}  // namespace

const ByDtype<OptimizerLoops> optimizer_loops{loops<float>, loops<bf16>, loops<double>};
const ByDtype<RestLoops> rest_loops{conversions<float>, conversions<bf16>, {nullptr, nullptr}};

}  // namespace hexad::kernels::cpu::HEXAD_ISA
