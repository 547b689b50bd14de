#include "parallel/comm/text_collectives.h"

#include <algorithm>

namespace hexad::comm {

using namespace base;
using namespace device;
using namespace tensor;

std::vector<std::string> gather_texts(const std::string& text, const ProcessGroup& group, Device device) {
  const int64_t length[] = {static_cast<int64_t>(text.size())};
  const std::vector<int64_t> lengths = group.all_gather_values(length, device);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<std::string> out(lengths.size());
  if (longest == 0) return out;
  const Device host = device.host();
  Tensor mine = Tensor::zeros({longest}, Dtype::u8, host, Category::communication);
  std::copy(text.begin(), text.end(), mine.data<uint8_t>());
  Tensor all = Tensor::empty({group.size() * longest}, Dtype::u8, host, Category::communication);
  group.all_gather(all, mine, host.context().compute()).wait();
  for (size_t r = 0; r < out.size(); ++r) {
    const uint8_t* begin = all.data<uint8_t>() + static_cast<int64_t>(r) * longest;
    out[r].assign(begin, begin + lengths[r]);
  }
  return out;
}

std::string broadcast_text(const std::string& text, int root, const ProcessGroup& group, Device device) {
  const Device host = device.host();
  InlineStream stream;
  const auto length = static_cast<int64_t>(text.size());
  const Tensor bytes = Tensor::from<int64_t>(std::span(&length, 1), {1}, host, Category::communication);
  group.broadcast(bytes, root, stream).wait();
  const int64_t count = *bytes.data<int64_t>();
  if (count == 0) return {};
  const Tensor chars = Tensor::empty({count}, Dtype::u8, host, Category::communication);
  if (group.rank() == root) std::copy(text.begin(), text.end(), chars.data<uint8_t>());
  group.broadcast(chars, root, stream).wait();
  return {reinterpret_cast<const char*>(chars.data<uint8_t>()), static_cast<size_t>(count)};
}

std::optional<RankText> first_text(const std::string& text, int code, const ProcessGroup& group, Device device) {
  const int none = group.size(), mine = text.empty() ? none : group.rank();
  const int first = static_cast<int>(group.all_reduce_value(mine, Reduce::min, device));
  if (first == none) return {};
  const double its = group.all_reduce_value(first == group.rank() ? code : 0, Reduce::max, device);
  return RankText{first, broadcast_text(text, first, group, device), static_cast<int>(its)};
}

void gather_bytes(const std::vector<uint8_t>& mine, const ProcessGroup& world, Device device,
                  const std::function<void(int rank, const std::vector<uint8_t>& bytes)>& take) {
  const Device host = device.host();
  Stream& stream = host.context().compute();
  const auto length = static_cast<int64_t>(mine.size());
  const std::vector<int64_t> lengths = world.gather_values(std::span(&length, 1), host);
  if (world.rank() != 0) {
    if (length > 0) world.send(Tensor::from<uint8_t>(mine, {length}, host, Category::communication), 0, stream).wait();
    return;
  }
  take(0, mine);
  for (int r = 1; r < world.size(); ++r) {
    const int64_t bytes = lengths[r];
    if (bytes == 0) {
      take(r, {});
      continue;
    }
    const Tensor from = Tensor::empty({bytes}, Dtype::u8, host, Category::communication);
    world.receive(from, r, stream).wait();
    take(r, from.to_vector<uint8_t>());
  }
}

}  // namespace hexad::comm
