#include "parallel/comm/operation.h"

#include <numeric>

#include "framework/base/counted.h"
#include "framework/base/ordinal.h"

namespace hexad::comm {

using namespace base;
namespace {

int64_t sum(const std::vector<int64_t>& v) { return std::accumulate(v.begin(), v.end(), int64_t{0}); }

// Returns the prefix of the error messages in this file, for example "[ep] all_gather: ".
std::string tag(const std::string& group, const Operation& op) {
  return std::string("[").append(group).append("] ").append(name_of(op.kind)).append(": ");
}

void check_tensor(const std::string& where, const char* name, const Tensor& t) {
  require(t.defined(), where, name, " is not defined; expected a tensor");
  require(t.contiguous(), where, name, " ", t.shape(), " has strides ", t.strides(), "; expected contiguous elements");
}

void check_many(const std::string& where, const char* big_name, const Tensor& big, const char* small_name,
                const Tensor& small, int size) {
  check_tensor(where, big_name, big);
  check_tensor(where, small_name, small);
  require(big.dtype() == small.dtype(), where, big_name, " is ", big.dtype(), " but ", small_name, " is ",
          small.dtype(), "; expected equal dtypes");
  require(big.numel() == size * small.numel(), where, big_name, " ", big.shape(), " has ", big.numel(),
          " elements; expected ", size * small.numel(), ", ", size, " times those of ", small_name, " ", small.shape());
}

void check_rows(const std::string& where, const char* name, const Tensor& t, const std::vector<int64_t>& rows,
                int size) {
  require(static_cast<int>(rows.size()) == size, where, "there are ", counted(std::ssize(rows), "split"), " for ",
          counted(size, "rank"), "; expected one split for each rank");
  for (int64_t r : rows) require(r >= 0, where, "a split has ", r, " rows; expected at least 0");
  require(t.rank() >= 1 && t.dim(0) == sum(rows), where, name, " is ", t.shape(), ", but its splits sum to ", sum(rows),
          " rows; expected equal numbers of rows");
}

}  // namespace

std::string_view name_of(Operation::Kind kind) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all",
                                        "broadcast",  "send",           "receive",    "barrier"};
  return names[base::ordinal(kind)];
}

int64_t row_bytes(const Tensor& t) {
  int64_t bytes = size_of(t.dtype());
  for (int d = 1; d < t.rank(); ++d) bytes *= t.dim(d);
  return bytes;
}

void Operation::check(const std::string& group, int rank, int size) const {
  const std::string label = tag(group, *this);
  switch (kind) {
    case Kind::all_reduce:
      check_tensor(label, "x", out);
      break;
    case Kind::reduce_scatter:
      check_many(label, "in", in, "out", out, size);
      break;
    case Kind::all_gather:
      check_many(label, "out", out, "in", in, size);
      break;
    case Kind::all_to_all: {
      check_tensor(label, "out", out);
      check_tensor(label, "in", in);
      check_rows(label, "in", in, splits.send, size);
      check_rows(label, "out", out, splits.receive, size);
      require(in.dtype() == out.dtype() && in.rank() == out.rank(), label, "out is ", out.dtype(), " ", out.shape(),
              ", but in is ", in.dtype(), " ", in.shape(), "; expected equal dtypes and numbers of dimensions");
      for (int d = 1; d < in.rank(); ++d)
        require(in.dim(d) == out.dim(d), label, "rows of out ", out.shape(), " and in ", in.shape(),
                " differ in dimension ", d, "; expected equal rows");
      const size_t me = rank;
      require(splits.send[me] == splits.receive[me], label, "rank ", rank, " sends itself ", splits.send[me],
              " rows and receives ", splits.receive[me], "; expected equal numbers");
      break;
    }
    case Kind::broadcast:
      check_tensor(label, "x", out);
      require(0 <= peer && peer < size, label, "the root is ", peer, " in a group of ", size, "; expected 0 .. ",
              size - 1);
      break;
    case Kind::send:
    case Kind::receive:
      check_tensor(label, "x", kind == Kind::send ? in : out);
      require(0 <= peer && peer < size && peer != rank, label, "rank ", rank, " cannot exchange messages with rank ",
              peer, " in a group of ", size, "; expected another rank of the group");
      break;
    case Kind::barrier:
      break;
  }
}

int64_t Operation::wire_bytes(int rank, int size) const {
  const int64_t others = size - 1;
  switch (kind) {
    case Kind::all_reduce:
      return 2 * others * out.bytes() / size;
    case Kind::reduce_scatter:
      return others * out.bytes();
    case Kind::all_gather:
      return others * in.bytes();
    case Kind::all_to_all:
      return row_bytes(in) * (in.dim(0) - splits.send[rank]);
    case Kind::broadcast:  // each rank forwards the piece that the root sent to it
      return (rank == peer ? 2 * others : others - 1) * out.bytes() / size;
    case Kind::send:
      return in.bytes();
    case Kind::receive:
    case Kind::barrier:
      return 0;
  }
  return 0;
}

std::string Operation::to_string() const {
  const Tensor& t = in.defined() ? in : out;
  std::string text(name_of(kind));
  if (t.defined()) text += cat(" of ", t.dtype(), " ", t.shape());
  if (kind == Kind::broadcast || kind == Kind::receive) text += cat(" from ", peer);
  if (kind == Kind::send) text += cat(" to ", peer);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Operation& operation) { return out << operation.to_string(); }

std::string Operation::call() const {
  if (where.line() == 0) return to_string();
  std::string_view file = where.file_name();
  if (const size_t name = file.rfind('/'); name != file.npos && name > 0)
    if (const size_t folder = file.rfind('/', name - 1); folder != file.npos) file.remove_prefix(folder + 1);
  return cat(to_string(), " at ", file, ":", where.line());
}

}  // namespace hexad::comm
