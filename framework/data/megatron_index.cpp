#include "framework/data/megatron_index.h"

#include <algorithm>
#include <array>
#include <bit>

#include "framework/base/error.h"
#include "framework/data/file.h"

namespace hexad::data {
using namespace base;
namespace {

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little, "indexes are read without byte swapping");

constexpr std::string_view magic_now = "MMIDIDX\0\0"sv, magic_before = "TNTIDX\0\0"sv;

struct Dtype {
  uint64_t code;
  std::string_view name;
  IdFormat ids;  // bytes == 0: not a type of ids
};
constexpr auto dtypes = std::to_array<Dtype>({{1, "uint8", {1, false}},
                                              {2, "int8", {1, true}},
                                              {3, "int16", {2, true}},
                                              {4, "int32", {4, true}},
                                              {5, "int64", {8, true}},
                                              {6, "float64", {0, true}},
                                              {7, "float32", {0, true}},
                                              {8, "uint16", {2, false}}});

// Reads an index from its beginning to its end.
class IndexReader {
 public:
  explicit IndexReader(const std::string& path) : file_(path), path_(path) {}

  MegatronIndex read() {
    index_.data_path = path_.substr(0, path_.size() - 4) + ".bin";
    std::array<char, 9> magic{};
    file_.read_at(0, magic.data(), std::min<int64_t>(file_.size(), std::ssize(magic)));
    const std::string_view begin(magic.data(), magic.size());
    digest_ids();
    if (begin == magic_now) {
      at_ = std::ssize(magic_now);
      read_now();
    } else if (begin.starts_with(magic_before)) {
      at_ = std::ssize(magic_before);
      read_before();
    } else {
      refuse("is not an index of Megatron-LM, expected a file that begins with MMIDIDX or TNTIDX");
    }
    return std::move(index_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(ExitCode::data, path_, ": ", parts...);
  }

  template <class T>
  T number() {
    T value{};
    need(sizeof value);
    file_.read_at(at_, &value, sizeof value);
    at_ += int64_t{sizeof value};
    return value;
  }
  template <class T>
  std::vector<T> numbers(int64_t n) {
    need(n * int64_t{sizeof(T)});
    std::vector<T> values(n);
    file_.read_at(at_, values.data(), n * int64_t{sizeof(T)});
    at_ += n * int64_t{sizeof(T)};
    return values;
  }
  void need(int64_t bytes) const {
    if (file_.size() - at_ < bytes) refuse("truncated: ", file_.size(), " bytes, expected at least ", at_ + bytes);
  }
  // Reads the number of items that follow. Each item occupies at least 4 bytes of the file.
  int64_t read_count(std::string_view what) {
    const auto value = number<uint64_t>();
    if (value > static_cast<uint64_t>(file_.size()) / 4)
      refuse("truncated or damaged: ", value, " ", what, " do not fit a file of ", file_.size(),
             " bytes, expected at most ", file_.size() / 4);
    return static_cast<int64_t>(value);
  }
  void read_version() {
    if (const auto version = number<uint64_t>(); version != 1) refuse("index version ", version, ", expected 1");
  }
  void set_dtype(uint64_t code) {
    const auto found = std::ranges::find(dtypes, code, &Dtype::code);
    if (found == dtypes.end()) refuse("dtype code ", code, ", expected 1 to 8");
    if (found->ids.bytes == 0) refuse("dtype code ", code, " (", found->name, "), expected an integer type");
    index_.ids = found->ids;
    if (bin_bytes_ % index_.ids.bytes != 0)
      fail(ExitCode::data, index_.data_path, ": has ", bin_bytes_, " bytes, expected a multiple of ", index_.ids.bytes,
           ", the size of an id (", found->name, ")");
  }

  void read_now() {
    read_version();
    set_dtype(number<uint8_t>());
    index_.sequences = read_count("sequences");
    const int64_t boundaries = read_count("document boundaries");
    const auto sizes = numbers<int32_t>(index_.sequences);
    auto positions = numbers<int64_t>(index_.sequences);
    const auto documents = numbers<int64_t>(boundaries);
    if (index_.sequences > 0 && file_.size() == at_ + index_.sequences)
      refuse("has sequence modes (multimodal data), expected an index of text only");
    require_end();
    for (size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] % index_.ids.bytes != 0)
        refuse("sequence ", i, " begins at byte ", positions[i], ", expected a multiple of ", index_.ids.bytes);
      positions[i] /= index_.ids.bytes;
    }
    divide(sizes, positions, documents);
  }

  void read_before() {
    read_version();
    set_dtype(number<uint64_t>());
    if (const auto size = number<uint64_t>(); size != static_cast<uint64_t>(index_.ids.bytes))
      refuse("ids of ", size, " bytes, expected ", index_.ids.bytes, ", the size of their dtype");
    index_.sequences = read_count("sequences");
    if (const int64_t sizes = read_count("sizes"); sizes != index_.sequences)
      refuse(sizes, " sizes for ", index_.sequences, " sequences, expected one size for each");
    const int64_t boundaries = read_count("document boundaries");
    numbers<int64_t>(index_.sequences + 1);  // skips the dimension offsets, because each sequence has one dimension
    const auto positions = numbers<int64_t>(index_.sequences + 1);
    const auto sizes = numbers<int64_t>(index_.sequences);
    const auto documents = numbers<int64_t>(boundaries);
    require_end();
    divide(sizes, positions, documents);
  }

  void require_end() const {
    if (file_.size() != at_) refuse("too long: ", file_.size(), " bytes, expected ", at_);
  }

  // Computes the offsets of documents, in tokens, from the sizes and positions of sequences.
  template <class Size>
  void divide(const std::vector<Size>& sizes, const std::vector<int64_t>& positions,
              const std::vector<int64_t>& documents) {
    const int64_t tokens = bin_bytes_ / index_.ids.bytes;
    std::vector<int64_t> starts{0};  // first token of each sequence
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t start = starts.back();
      if (positions[i] != start)
        refuse("sequence ", i, " begins at token ", positions[i], ", expected ", start,
               ", the end of the sequence before it; only sequences in order and without gaps can be read in place");
      if (sizes[i] < 0) refuse("sequence ", i, " has ", sizes[i], " tokens, expected at least 0; the index is damaged");
      if (sizes[i] > tokens - start)
        refuse("sequence ", i, " of ", sizes[i], " tokens begins at token ", start, ", but ", index_.data_path,
               " has only ", tokens, " tokens (", bin_bytes_, " bytes); is that file truncated?");
      starts.push_back(start + sizes[i]);
    }
    if (starts.back() != tokens)
      fail(ExitCode::data, index_.data_path, ": has ", tokens, " tokens (", bin_bytes_, " bytes), expected ",
           starts.back(), ", the sum of the sequence lengths in ", path_);
    if (documents.empty() || documents.front() != 0 || documents.back() != index_.sequences)
      refuse("document boundaries are ", documents.empty() ? std::string("missing") : range_of(documents),
             ", expected 0 to ", index_.sequences, ", the number of sequences");
    for (size_t d = 0; d < documents.size(); ++d) {
      if (d > 0 && (documents[d] < documents[d - 1] || documents[d] > index_.sequences))
        refuse("document ", d - 1, " ends at sequence ", documents[d], ", expected ", documents[d - 1], " to ",
               index_.sequences);
      index_.offsets.push_back(starts[documents[d]]);
    }
  }
  static std::string range_of(const std::vector<int64_t>& values) { return cat(values.front(), " to ", values.back()); }

  void digest_ids() {
    const ReadFile bin(index_.data_path);
    bin_bytes_ = bin.size();
    StreamingDigest digest;
    const auto add = [&](const ReadFile& file, int64_t begin, int64_t bytes) {
      std::vector<char> block(bytes);
      file.read_at(begin, block.data(), bytes);
      digest.add(block.data(), block.size());
    };
    constexpr int64_t mebibyte = int64_t{1} << 20;
    for (int64_t at = 0; at < file_.size(); at += mebibyte) add(file_, at, std::min(mebibyte, file_.size() - at));
    digest.add(&bin_bytes_, sizeof bin_bytes_);
    const int64_t ends = std::min(mebibyte, bin_bytes_);
    add(bin, 0, ends);
    add(bin, bin_bytes_ - ends, ends);
    index_.digest = digest.value();
  }

  ReadFile file_;
  const std::string& path_;
  int64_t at_ = 0;  // position of the next number
  int64_t bin_bytes_ = 0;
  MegatronIndex index_ = {};
};

}  // namespace

std::string IdFormat::name() const { return cat(is_signed ? "i" : "u", 8 * bytes); }

bool is_megatron_index(std::string_view path) { return path.ends_with(".idx"); }

MegatronIndex read_megatron_index(const std::string& path) { return IndexReader(path).read(); }

}  // namespace hexad::data
