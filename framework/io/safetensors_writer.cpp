#include <algorithm>
#include <bit>
#include <numeric>

#include "framework/io/output_file.h"
#include "framework/io/safetensors.h"
#include "framework/io/safetensors_header.h"
#include "framework/tensor/host_read.h"

namespace hexad::io {

using namespace base;
using namespace tensor;

static_assert(std::endian::native == std::endian::little, "tensors are written without byte swapping");

namespace {

/// Returns the order of the tensors in the file: by descending size of their elements, so that all tensors are aligned.
std::vector<size_t> file_order(std::span<const NamedTensor> tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return size_of(tensors[i].tensor.dtype()); });
  return order;
}

std::vector<TensorInfo> layout_of(std::span<const NamedTensor> tensors, std::span<const size_t> order) {
  std::vector<TensorInfo> infos;
  int64_t at = 0;
  for (size_t i : order) {
    const TensorSource& t = tensors[i].tensor;
    infos.push_back({tensors[i].name, t.dtype(), t.shape(), at, at + t.bytes()});
    at += t.bytes();
  }
  return infos;
}

std::string append_tensor(OutputFile& file, const Tensor& given) {
  const Tensor tensor = copy_to_host("checkpoint", given, given.device().context().compute());
  data::StreamingDigest digest;
  const int64_t element = size_of(tensor.dtype());
  for_each_run(tensor.shape(), tensor.shape().row_major_strides(), tensor.strides(),
               [&](int64_t, int64_t from, int64_t count) {
                 const auto* bytes = static_cast<const std::byte*>(tensor.raw()) + from * element;
                 digest.add(bytes, count * element);
                 file.append(bytes, count * element);
               });
  return digest.value().to_string();
}

}  // namespace

SafetensorsResult write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                                    const std::map<std::string, std::string>& metadata, const FaultHook& fault,
                                    const FileWork& work) {
  const std::vector<size_t> order = file_order(tensors);
  const std::vector<TensorInfo> layout = layout_of(tensors, order);
  const std::string header = make_header(layout, metadata);
  require_readable_header(header, layout.empty() ? 0 : layout.back().end, path);
  const auto length = static_cast<uint64_t>(header.size());

  OutputFile file(path, work);
  reach(fault, "file created");
  file.append(&length, length_bytes);
  file.append(header.data(), static_cast<int64_t>(header.size()));
  SafetensorsResult result{0, "", std::vector<std::string>(tensors.size())};
  for (size_t i : order) result.tensors[i] = append_tensor(file, tensors[i].tensor.get());
  file.finish(fault);
  result.bytes = file.bytes();
  result.digest = file.digest();
  return result;
}

}  // namespace hexad::io
