// Elements that are loaded and stored together (Words), and elementwise kernels that use them.
#pragma once

#include <bit>

#include "framework/kernels/cuda/launch.cuh"

namespace hexad::kernels::cuda {

/// Unsigned type that one access loads or stores: 1, 2, 4, 8 or 16 bytes.
template <int bytes>
struct WordOf;
template <>
struct WordOf<16> {
  using type = uint4;
};
template <>
struct WordOf<8> {
  using type = uint2;
};
template <>
struct WordOf<4> {
  using type = unsigned;
};
template <>
struct WordOf<2> {
  using type = unsigned short;
};
template <>
struct WordOf<1> {
  using type = unsigned char;
};

/// N elements, stored as words with two bf16 per register. For a Vector, the compiler tends to use one register per
/// bf16.
template <class D, int N>
struct Words {
  static constexpr int bytes = static_cast<int>(sizeof(D)) * N;
  using Word = typename WordOf<(bytes < 16 ? bytes : 16)>::type;
  static constexpr int count = bytes / static_cast<int>(sizeof(Word));
  Word at[count];
};

/// Loads a vector. `p` must be a multiple of the size of the vector, or of 16 bytes if the vector has more than 16
/// bytes.
template <int N, class D>
__device__ __forceinline__ Words<D, N> load_words(const D* p) {
  Words<D, N> words;
#pragma unroll
  for (int w = 0; w < words.count; ++w) words.at[w] = reinterpret_cast<const typename Words<D, N>::Word*>(p)[w];
  return words;
}
template <class D, int N>
__device__ __forceinline__ Vector<D, N> elements(const Words<D, N>& words) {
  return std::bit_cast<Vector<D, N>>(words);
}
template <class D, int N>
__device__ __forceinline__ Words<D, N> words_of(const Vector<D, N>& v) {
  return std::bit_cast<Words<D, N>>(v);
}
/// Prevents the compiler from keeping the elements unpacked. Unpacked elements need many more registers than words.
template <class D, int N>
__device__ __forceinline__ void keep_packed(Words<D, N>& words) {
  static_assert(sizeof(typename Words<D, N>::Word) == 16);
#pragma unroll
  for (uint4& w : words.at) asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w));
}
template <int N, class D>
__device__ __forceinline__ Vector<D, N> load(const D* p) {
  return elements(load_words<N>(p));
}
template <class D, int N>
__device__ __forceinline__ void store(D* p, const Vector<D, N>& v) {
  const Words<D, N> words = words_of(v);
#pragma unroll
  for (int w = 0; w < words.count; ++w) reinterpret_cast<typename Words<D, N>::Word*>(p)[w] = words.at[w];
}

/// Loads a vector that is not reused, with a hint to evict it from the caches before other data.
template <int N, class D>
__device__ __forceinline__ Words<D, N> load_words_once(const D* p) {
  Words<D, N> words;
#pragma unroll
  for (int w = 0; w < words.count; ++w)
    words.at[w] = __ldcs(reinterpret_cast<const typename Words<D, N>::Word*>(p) + w);
  return words;
}
template <class D, int N>
__device__ __forceinline__ void store_once(D* p, const Vector<D, N>& v) {
  const Words<D, N> words = words_of(v);
#pragma unroll
  for (int w = 0; w < words.count; ++w) __stcs(reinterpret_cast<typename Words<D, N>::Word*>(p) + w, words.at[w]);
}

/// Returns 1 / (1 + e^-x). For bf16, uses fast functions, whose error is smaller than the rounding to bf16.
template <class D>
__device__ __forceinline__ sum_t<D> sigmoid(sum_t<D> x) {
  if constexpr (std::is_same_v<D, __nv_bfloat16>) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
  } else {
    return 1 / (1 + exp(-x));
  }
}

/// Returns the rows of a tensor; rows without data if the tensor is undefined.
template <class T>
Rows<device_t<T>> rows_if_defined(std::string_view op, const Tensor& t) {
  return t.defined() ? rows_of<T>(op, t) : Rows<device_t<T>>{};
}
/// Returns all elements of contiguous memory as one row.
template <class D>
Rows<D> one_row(D* data, int64_t count) {
  Rows<D> row;
  row.data = data;
  row.width = count;
  return row;
}
template <class D>
bool contiguous(const Rows<D>& rows) {
  return rows.levels == 0 || (rows.levels == 1 && (rows.size[0] == 1 || rows.stride[0] == rows.width));
}

/// Returns the address of row r, like Rows::operator[], but uses only constant indices. With variable indices, the
/// compiler would put all of `rows` on the stack.
template <class D>
__device__ __forceinline__ D* row_at(const Rows<D>& rows, int64_t r) {
  static_assert(Rows<D>::max_levels == 3);
  if (rows.levels <= 1) return rows.data + r * rows.stride[0];
  D* inner = rows.data + r % rows.size[0] * rows.stride[0];
  r /= rows.size[0];
  if (rows.levels == 2) return inner + r * rows.stride[1];
  return inner + r % rows.size[1] * rows.stride[1] + r / rows.size[1] * rows.stride[2];
}

/// Makes each operand a single row if all operands are contiguous. The row of an item is then found without a division.
/// Operands without data do not change.
template <class... D>
void merge_rows(Rows<D>&... rows) {
  if ((contiguous(rows) && ...)) ((rows = one_row(rows.data, rows.count * rows.width)), ...);
}

/// Rows divided into items of N elements, in row-major order, for elementwise kernels.
template <int N>
struct Items {
  int64_t count, per_row;

  template <class D>
  static Items of(const Rows<D>& rows) {
    return {rows.count * (rows.width / N), rows.width / N};
  }
  __device__ __forceinline__ int64_t row(int64_t i) const { return count == per_row ? 0 : i / per_row; }
  template <class D>
  __device__ __forceinline__ D* at(const Rows<D>& rows, int64_t i) const {
    if (count == per_row) return rows.data + i * N;
    const int64_t r = i / per_row;
    return row_at(rows, r) + (i - r * per_row) * N;
  }
};

/// Number of threads in a block of an elementwise kernel, and number of items that each thread reads before it writes
/// the first item.
inline constexpr int item_threads = 256, items_at_once = 4;

/// Returns the index of item u of this thread if each thread has `at_once` items.
template <int at_once>
__device__ __forceinline__ int64_t item_of_thread(int u) {
  return (int64_t{blockIdx.x} * at_once + u) * item_threads + threadIdx.x;
}
template <int at_once, int N>
int64_t blocks_of(const Items<N>& items) {
  return blocks_of(items.count, int64_t{item_threads} * at_once);
}

/// Words of an operand that one thread has read.
template <class D, int N, int at_once>
struct Loaded {
  Words<D, N> at[at_once];
};
template <int at_once, class D, int N>
__device__ __forceinline__ Loaded<D, N, at_once> load_items(const Rows<D>& x, const Items<N>& items) {
  Loaded<D, N, at_once> loaded{};
#pragma unroll
  for (int u = 0; u < at_once; ++u) {
    const int64_t i = item_of_thread<at_once>(u);
    if (i < items.count) loaded.at[u] = load_words<N>(items.at(x, i));
  }
  return loaded;
}

template <int N, class F, class Out, class... In>
__global__ void __launch_bounds__(item_threads) map_items(F f, Items<N> items, Rows<Out> out, Rows<In>... in) {
  const auto finish = [&](const auto&... loaded) {
#pragma unroll
    for (int u = 0; u < items_at_once; ++u) {
      const int64_t i = item_of_thread<items_at_once>(u);
      if (i >= items.count) return;
      Vector<Out, N> y;
#pragma unroll
      for (int e = 0; e < N; ++e) y.at[e] = to<Out>(f(elements(loaded.at[u]).at[e]...));
      store(items.at(out, i), y);
    }
  };
  finish(load_items<items_at_once>(in, items)...);
}

/// Calls go(Items<N>::of(first)). N is `widest` if all rows are aligned to this number of elements, otherwise 1.
template <int widest, class Go, class First, class... Rest>
void with_items(const Go& go, const Rows<First>& first, const Rows<Rest>&... rest) {
  if (first.aligned(widest) && (rest.aligned(widest) && ...)) {
    go(Items<widest>::of(first));
  } else {
    go(Items<1>::of(first));
  }
}

/// Computes out = f(in...) elementwise. All operands have the same shape; `out` may be one of `in`.
template <class F, class Out, class... In>
void map(std::string_view op, Stream& stream, F f, Rows<Out> out, Rows<In>... in) {
  merge_rows(out, in...);
  constexpr int widest = 16 / static_cast<int>(std::max({sizeof(Out), sizeof(In)...}));
  with_items<widest>(
      [&]<int N>(const Items<N>& items) {
        launch(op, map_items<N, F, Out, In...>, blocks_of<items_at_once>(items), item_threads, stream, f, items, out,
               in...);
      },
      out, in...);
}

}  // namespace hexad::kernels::cuda
