#include "framework/kernels/cpu/attention_tile.h"

#include "framework/kernels/cpu/products/micro.h"
#include "framework/kernels/cpu/simd/math.h"

// Every product uses multiply() of micro.h: a strip of mr queries (or keys) times panels of nr columns. Scores,
// probabilities and their gradients are strips of mr rows. A strip is as wide as a key block, and its rows are `span`
// elements apart. The packed queries are multiplied by the scale.
namespace hexad::kernels::cpu::HEXAD_ISA {
namespace {

/// Distance between the rows of a strip, in elements. It is longer than a key block, because backward's last strip of
/// mr <= 32 keys may extend beyond the block.
constexpr int64_t span = attention_keys + 32;
static_assert(attention_queries % mr == 0 && nr<float> <= 32 && mr <= 32);

int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Sizes of a head: the number of elements that are computed, this number rounded up to whole panels, and the number of
/// parts of at most 256 elements. The products of the parts are added.
struct HeadSize {
  int64_t elements, padded, parts;
};

/// Range [begin, end) of keys.
struct Range {
  int64_t begin, end;
};

/// Partial sums or maxima that fill 64 bytes on every instruction set. The order of a reduction is therefore the same
/// on all instruction sets.
template <class T>
struct Lanes {
  static constexpr int parts = 64 / vector_bytes, count = parts * lanes<T>;
  V<T> part[parts];
};

template <class T>
T largest(const T* p, int64_t n) {
  T best = p[0];
  int64_t i = 0;
  if (n >= Lanes<T>::count) {
    Lanes<T> top;
    for (int w = 0; w < top.parts; ++w) top.part[w] = load<lanes<T>>(p + w * lanes<T>);
    for (i = top.count; i + top.count <= n; i += top.count) {
      for (int w = 0; w < top.parts; ++w) {
        const V<T> x = load<lanes<T>>(p + i + w * lanes<T>);
        top.part[w] = x > top.part[w] ? x : top.part[w];
      }
    }
    for (int w = 0; w < top.parts; ++w)
      for (int l = 0; l < lanes<T>; ++l) best = top.part[w][l] > best ? top.part[w][l] : best;
  }
  for (; i < n; ++i) best = p[i] > best ? p[i] : best;
  return best;
}

template <class T>
T total(const Lanes<T>& sums) {
  T sum = 0;
  for (int w = 0; w < sums.parts; ++w)
    for (int l = 0; l < lanes<T>; ++l) sum += sums.part[w][l];
  return sum;
}

template <class T>
T sum_of(const T* p, int64_t n) {
  Lanes<T> sums = {};
  int64_t i = 0;
  for (; i + sums.count <= n; i += sums.count)
    for (int w = 0; w < sums.parts; ++w) sums.part[w] += load<lanes<T>>(p + i + w * lanes<T>);
  T sum = total(sums);
  for (; i < n; ++i) sum += p[i];
  return sum;
}

template <class In, class T = Wide<In>>
T dot(const In* a, const In* b, int64_t n) {
  Lanes<T> sums = {};
  int64_t i = 0;
  for (; i + sums.count <= n; i += sums.count)
    for (int w = 0; w < sums.parts; ++w)
      sums.part[w] += widen<lanes<T>>(a + i + w * lanes<T>) * widen<lanes<T>>(b + i + w * lanes<T>);
  T sum = total(sums);
  for (; i < n; ++i) sum += widen_one(a + i) * widen_one(b + i);
  return sum;
}

float log_of(float x) { return __builtin_logf(x); }
double log_of(double x) { return __builtin_log(x); }

/// Computes to = from * factor, rounded to the type of `to`.
template <class In, class T = Wide<In>>
void store_scaled(In* to, const T* from, T factor, int64_t n) {
  int64_t i = 0;
  for (; i + lanes<T> <= n; i += lanes<T>) narrow<lanes<T>>(to + i, load<lanes<T>>(from + i) * factor);
  for (; i < n; ++i) narrow_one(to + i, from[i] * factor);
}

/// Allocates consecutive blocks from the task's scratch memory. Every block is aligned to 64 bytes.
class Arena {
 public:
  explicit Arena(void* memory) : next_(static_cast<char*>(memory)) {}
  template <class T>
  T* take(int64_t count) {
    T* block = reinterpret_cast<T*>(next_);
    next_ += round_up(count * static_cast<int64_t>(sizeof(T)), 64);
    return block;
  }

 private:
  char* next_;
};

template <class In>
struct Attention {
  using T = Wide<In>;
  static constexpr int width = nr<T>;

  const AttentionProblem& p;
  const AttentionTask& task;
  const HeadSize of_key = head_size(p.size), of_value = head_size(p.value_size);

  static HeadSize head_size(int64_t elements) {
    return {elements, round_up(elements, width), (elements + attention_keys - 1) / attention_keys};
  }
  In* row(const HeadRows& h, int64_t token, int64_t head) const {
    return static_cast<In*>(h.data) + token * h.token + head * h.head;
  }
  int64_t query_token(int64_t i) const { return task.sequence * p.queries + i; }
  int64_t key_token(int64_t j) const { return task.sequence * p.keys + j; }
  T& log_sum_exp(int64_t i, int64_t head) const {
    return static_cast<T*>(p.log_sum_exp)[query_token(i) * p.heads + head];
  }

  /// Returns the range of keys that query i sees.
  Range seen(int64_t i) const {
    Range r{p.first ? max(p.first[query_token(i)], 0) : 0, p.last ? min(p.last[query_token(i)], p.keys) : p.keys};
    if (p.causal) r.end = min(r.end, i + p.query_offset + 1);
    if (p.window > 0) r.begin = max(r.begin, i + p.query_offset - p.window + 1);
    return r.begin < r.end ? r : Range{0, 0};
  }
  /// Returns the smallest range that contains all keys seen by queries [begin, end).
  Range seen(int64_t begin, int64_t end) const {
    Range all{p.keys, 0};
    for (int64_t i = begin; i < end; ++i) {
      const Range r = seen(i);
      if (r.begin == r.end) continue;
      all = {min(all.begin, r.begin), max(all.end, r.end)};
    }
    return all.begin < all.end ? all : Range{0, 0};
  }

  /// Packs rows [begin, end) of one head as panels of their transpose: [keys / nr][C][nr]. The last panel is padded
  /// with zeros.
  void pack_transposed_rows(T* to, const HeadRows& h, const HeadSize& size, int64_t begin, int64_t end,
                            int64_t head) const {
    for (int64_t j = begin; j < end; j += width, to += size.padded * width)
      pack_transposed<T>(to, row(h, key_token(j), head), h.token, min(width, end - j), size.elements);
  }
  /// Packs the rows of `count` tokens from `token` on as panels [C / nr][count][nr].
  void pack_plain_rows(T* to, const HeadRows& h, const HeadSize& size, int64_t token, int64_t count,
                       int64_t head) const {
    pack_panels<width, lanes<T>>(to, count * width, row(h, token, head), h.token, size.elements, count);
  }
  /// Packs rows [i, i + rows) of q or dout (`h`), multiplied by `factor`, as a strip for the left side of a product:
  /// [C / 256][mr][span].
  void pack_strip(T* to, const HeadRows& h, const HeadSize& size, int64_t i, int64_t rows, int64_t head,
                  T factor) const {
    for (int64_t c = 0; c < size.elements; c += attention_keys, to += mr * span) {
      const int64_t columns = min(attention_keys, size.elements - c);
      pack_along<span, T>(to, row(h, query_token(i), head) + c, h.token, rows, columns);
      if (factor == 1) continue;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < columns; ++k) to[r * span + k] *= factor;
    }
  }
  /// Zeroes the end of a row of out or dv: the elements from index of_value.elements to the end of the row.
  void clear_rest(In* to) const {
    for (int64_t c = of_value.elements; c < of_key.elements; ++c) to[c] = In{};
  }

  /// Computes strip[mr, keys of the block] = `left` times the transposed pack, for the columns `keys`. `origin` is the
  /// first key of the pack, and `block` is the first key of the block. The computed panels may extend up to nr - 1 keys
  /// beyond both ends of `keys`.
  void scores(T* strip, const T* left, int64_t rows, const T* panels, const HeadSize& size, int64_t origin,
              int64_t block, Range keys) const {
    for (int64_t j = origin + (keys.begin - origin) / width * width; j < keys.end; j += width) {
      const T* panel = panels + (j - origin) * size.padded;
      T* to = strip + (j - block);
      multiply<T, span, 1, Put::sums>(to, span, left, panel, min(attention_keys, size.elements), rows);
      for (int64_t d = 1; d < size.parts; ++d)
        multiply<T, span, 1, Put::add>(to, span, left + d * mr * span, panel + d * attention_keys * width,
                                       min(attention_keys, size.elements - d * attention_keys), rows);
    }
  }

  /// Scratch memory of forward: packs of one key head, and blocks that every strip of queries reuses.
  struct Forward {
    int64_t origin, count;  // first key of the packs, and number of keys
    T* keys;                // transposed panels
    T* values;              // [C / nr][count][nr]
    T* strip;               // scores [mr][span]
    T* left;                // left operand of the scores, as strips
    T* sums;                // [mr][padded size of a head]
  };

  void forward(Arena arena) const {
    const Range all = seen(task.first_query, task.end_query);
    Forward f;
    // A pack starts at a multiple of 256 keys, so that no panel extends across the end of a block.
    f.origin = all.begin / attention_keys * attention_keys;
    f.count = all.end - f.origin;
    f.keys = arena.take<T>(round_up(f.count, width) * of_key.padded);
    f.values = arena.take<T>(f.count * of_value.padded);
    f.strip = arena.take<T>(mr * span);
    f.left = arena.take<T>(of_key.parts * mr * span);
    f.sums = arena.take<T>(mr * of_value.padded);
    if (f.count > 0) {
      pack_transposed_rows(f.keys, p.k, of_key, f.origin, all.end, task.key_head);
      pack_plain_rows(f.values, p.v, of_value, key_token(f.origin), f.count, task.key_head);
    }
    const int64_t group = p.heads / p.key_heads;
    for (int64_t head = task.key_head * group; head < (task.key_head + 1) * group; ++head)
      for (int64_t i = task.first_query; i < task.end_query; i += mr)
        forward_strip(f, i, min(mr, task.end_query - i), head);
  }

  /// Computes the attention of `rows` queries with a running maximum over the key blocks (Milakov & Gimelshein 2018).
  void forward_strip(const Forward& f, int64_t i, int64_t rows, int64_t head) const {
    constexpr T lowest = -__builtin_huge_valf();
    const auto [origin, count, keys, values, strip, left, sums] = f;
    const auto [size, padded, parts] = of_value;
    T top[mr], weight[mr];
    Range see[mr];
    for (int64_t r = 0; r < rows; ++r) top[r] = lowest, weight[r] = 0, see[r] = seen(i + r);
    for (int64_t c = 0; c < mr * padded; ++c) sums[c] = 0;
    const Range all = seen(i, i + rows);
    if (all.end > 0) pack_strip(left, p.q, of_key, i, rows, head, static_cast<T>(p.scale));
    for (int64_t block = all.begin / attention_keys * attention_keys; block < all.end; block += attention_keys) {
      const Range here{max(all.begin, block), min(all.end, block + attention_keys)};
      scores(strip, left, rows, keys, of_key, origin, block, here);
      for (int64_t r = 0; r < mr; ++r) {
        T* s = strip + r * span - block;
        const Range mine = r < rows ? Range{max(here.begin, see[r].begin), min(here.end, see[r].end)} : Range{0, 0};
        if (mine.begin >= mine.end) {
          for (int64_t j = here.begin; j < here.end; ++j) s[j] = 0;
          continue;
        }
        for (int64_t j = here.begin; j < mine.begin; ++j) s[j] = 0;
        for (int64_t j = mine.end; j < here.end; ++j) s[j] = 0;
        const T peak = largest(s + mine.begin, mine.end - mine.begin), next = peak > top[r] ? peak : top[r];
        if (next > top[r] && weight[r] > 0) {
          const T shrink = exp_of(top[r] - next);
          weight[r] *= shrink;
          for (int64_t c = 0; c < padded; ++c) sums[r * padded + c] *= shrink;
        }
        top[r] = next;
#pragma omp simd
        for (int64_t j = mine.begin; j < mine.end; ++j) s[j] = exp_of(s[j] - next);
        weight[r] += sum_of(s + mine.begin, mine.end - mine.begin);
      }
      for (int64_t c = 0; c < size; c += width)
        multiply<T, span, 1, Put::add>(sums + c, padded, strip + (here.begin - block),
                                       values + c * count + (here.begin - origin) * width, here.end - here.begin, rows);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const bool any = see[r].end > 0;
      In* out = row(p.out, query_token(i + r), head);
      store_scaled<In>(out, sums + r * padded, any ? 1 / weight[r] : T(0), size);
      clear_rest(out);
      log_sum_exp(i + r, head) = any ? top[r] + log_of(weight[r]) : lowest;
    }
  }

  /// Scratch memory of backward: blocks that are filled once per key head, and blocks that are reused.
  struct Backward {
    Range all;
    int64_t origin, count;  // first key of the packs, and number of keys
    T *keys, *values;       // transposed panels
    T* plain_keys;          // [C / nr][count][nr]
    T *dk, *dv;             // [count, padded size of a head], plus memory for one more strip
    T *queries, *douts;     // queries (times the scale) and douts of one head: [C / nr][queries of a block][nr]
    T *p, *ds;              // [queries of a block][span]
    T *left, *dout_left;    // left operands of products, as strips
    T* dq;                  // [queries of a block][padded size of a head]
  };

  void backward(Arena arena) const {
    Backward b;
    b.all = seen(0, p.queries);
    b.origin = b.all.begin / attention_keys * attention_keys;
    b.count = b.all.end - b.origin;
    b.keys = arena.take<T>(round_up(b.count, width) * of_key.padded);
    b.values = arena.take<T>(round_up(b.count, width) * of_value.padded);
    b.plain_keys = arena.take<T>(b.count * of_key.padded);
    b.dk = arena.take<T>((b.count + mr) * of_key.padded);
    b.dv = arena.take<T>((b.count + mr) * of_value.padded);
    b.queries = arena.take<T>(attention_queries * of_key.padded);
    b.douts = arena.take<T>(attention_queries * of_value.padded);
    b.p = arena.take<T>(attention_queries * span);
    b.ds = arena.take<T>(attention_queries * span);
    b.left = arena.take<T>(of_key.parts * mr * span);
    b.dout_left = arena.take<T>(of_value.parts * mr * span);
    b.dq = arena.take<T>(attention_queries * of_key.padded);
    for (int64_t c = 0; c < (b.count + mr) * of_key.padded; ++c) b.dk[c] = 0;
    for (int64_t c = 0; c < (b.count + mr) * of_value.padded; ++c) b.dv[c] = 0;
    if (b.count > 0) {
      pack_transposed_rows(b.keys, p.k, of_key, b.origin, b.all.end, task.key_head);
      pack_transposed_rows(b.values, p.v, of_value, b.origin, b.all.end, task.key_head);
      pack_plain_rows(b.plain_keys, p.k, of_key, key_token(b.origin), b.count, task.key_head);
    }
    const int64_t group = p.heads / p.key_heads;
    for (int64_t head = task.key_head * group; head < (task.key_head + 1) * group; ++head)
      for (int64_t i = 0; i < p.queries; i += attention_queries)
        backward_block(b, i, min(attention_queries, p.queries - i), head);
    for (int64_t j = 0; j < p.keys; ++j) {
      In *dk = row(p.dk, key_token(j), task.key_head), *dv = row(p.dv, key_token(j), task.key_head);
      if (j < b.origin || b.all.end <= j) {  // no query sees this key
        for (int64_t c = 0; c < of_key.elements; ++c) dk[c] = dv[c] = In{};
        continue;
      }
      store_scaled<In>(dk, b.dk + (j - b.origin) * of_key.padded, T(1), of_key.elements);
      store_scaled<In>(dv, b.dv + (j - b.origin) * of_value.padded, T(1), of_value.elements);
      clear_rest(dv);
    }
  }

  void backward_block(const Backward& b, int64_t i, int64_t rows, int64_t head) const {
    for (int64_t c = 0; c < attention_queries * of_key.padded; ++c) b.dq[c] = 0;
    const Range all = seen(i, i + rows);
    if (all.end > 0) {
      pack_plain_rows(b.queries, p.q, of_key, query_token(i), rows, head);
      for (int64_t c = 0; c < rows * of_key.padded; ++c) b.queries[c] *= static_cast<T>(p.scale);
      pack_plain_rows(b.douts, p.dout, of_value, query_token(i), rows, head);
    }
    for (int64_t block = all.begin / attention_keys * attention_keys; block < all.end; block += attention_keys) {
      const Range here{max(all.begin, block), min(all.end, block + attention_keys)};
      for (int64_t r = 0; r < rows; r += mr) backward_strip(b, i + r, r, min(mr, rows - r), head, block, here);
      // The last strip may extend beyond the range. Its additional keys are multiplied by zeros in p and ds.
      for (int64_t j = here.begin; j < here.end; j += mr) {
        const auto add_product = [&](T* to, const HeadSize& size, const T* strips, const T* panels) {
          for (int64_t c = 0; c < size.elements; c += width)
            multiply<T, 1, span, Put::add>(to + (j - b.origin) * size.padded + c, size.padded, strips + (j - block),
                                           panels + c * rows, rows, here.end - j);
        };
        add_product(b.dv, of_value, b.p, b.douts);
        add_product(b.dk, of_key, b.ds, b.queries);
      }
    }
    for (int64_t r = 0; r < rows; ++r)
      store_scaled<In>(row(p.dq, query_token(i + r), head), b.dq + r * of_key.padded, static_cast<T>(p.scale),
                       of_key.elements);
  }

  /// Computes p and ds of queries [i, i + rows) for the keys of one block. Adds the contribution of these keys to dq.
  /// The first of these queries is row `at` of its query block.
  void backward_strip(const Backward& b, int64_t i, int64_t at, int64_t rows, int64_t head, int64_t block,
                      Range here) const {
    pack_strip(b.left, p.q, of_key, i, rows, head, static_cast<T>(p.scale));
    pack_strip(b.dout_left, p.dout, of_value, i, rows, head, T(1));
    T *probabilities = b.p + at * span, *gradients = b.ds + at * span;
    const Range strip = seen(i, i + rows), mine{max(here.begin, strip.begin), min(here.end, strip.end)};
    if (mine.begin < mine.end) {
      scores(probabilities, b.left, rows, b.keys, of_key, b.origin, block, mine);
      scores(gradients, b.dout_left, rows, b.values, of_value, b.origin, block, mine);
    }
    for (int64_t r = 0; r < mr; ++r) {
      T *s = probabilities + r * span - block, *ds = gradients + r * span - block;
      const Range see = r < rows ? seen(i + r) : Range{0, 0};
      const int64_t begin = min(max(here.begin, see.begin), here.end), end = max(begin, min(here.end, see.end));
      for (int64_t j = here.begin; j < begin; ++j) s[j] = ds[j] = 0;
      for (int64_t j = end; j < here.end + mr; ++j) s[j] = ds[j] = 0;
      if (begin == end) continue;
      const T log_sum = log_sum_exp(i + r, head);
      const T mean =
          dot(row(p.dout, query_token(i + r), head), row(p.out, query_token(i + r), head), of_value.elements);
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) {
        s[j] = exp_of(s[j] - log_sum);
        ds[j] = s[j] * (ds[j] - mean);
      }
    }
    if (mine.begin >= mine.end) return;
    for (int64_t c = 0; c < of_key.elements; c += width)
      multiply<T, span, 1, Put::add>(b.dq + at * of_key.padded + c, of_key.padded, gradients + (mine.begin - block),
                                     b.plain_keys + c * b.count + (mine.begin - b.origin) * width,
                                     mine.end - mine.begin, rows);
  }
};

template <class F>
void with_stored(base::Dtype dtype, const F& f) {
  if (dtype == base::Dtype::f64)
    f.template operator()<double>();
  else if (dtype == base::Dtype::bf16)
    f.template operator()<uint16_t>();
  else
    f.template operator()<float>();
}

}  // namespace

void attention_forward(const AttentionProblem& p, const AttentionTask& task, void* scratch) {
  with_stored(p.dtype, [&]<class In>() { Attention<In>{p, task}.forward(Arena(scratch)); });
}

void attention_backward(const AttentionProblem& p, const AttentionTask& task, void* scratch) {
  with_stored(p.dtype, [&]<class In>() { Attention<In>{p, task}.backward(Arena(scratch)); });
}

}  // namespace hexad::kernels::cpu::HEXAD_ISA
