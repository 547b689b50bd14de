// Weights in fp8 with a scale for each block of 128 x 128 elements.
#include "tools/interop/fp8_blocks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "framework/base/fp8.h"
#include "tests/interop/foreign_folder.h"
#include "tests/training/training.h"
#include "tools/interop/elements.h"
#include "tools/interop/export_model.h"
#include "tools/interop/import_model.h"

namespace hexad::tests {

using namespace base;
using namespace interop;
namespace {

constexpr const char* gate = "model.layers.1.block_sparse_moe.gate.weight";

TEST(Fp8Blocks, EachElementIsItsCodeTimesTheScaleOfItsBlock) {
  const int64_t rows = 130, columns = 200;
  EXPECT_EQ(shape_of_scales({rows, columns}), (Shape{2, 2}));
  const std::vector<float> scales{1, 2, 4, 8};
  const std::vector<std::byte> codes(rows * columns, static_cast<std::byte>(e4m3(1.5f).bits));
  std::vector<bf16> values(codes.size());
  dequantise(reinterpret_cast<std::byte*>(values.data()), codes, scales, 0, columns);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const float scale = scales[r / 128 * 2 + c / 128];
      ASSERT_EQ(static_cast<float>(values[r * columns + c]), 1.5f * scale) << r << ", " << c;
    }
}

TEST(Fp8Blocks, PartOfAMatrixMayBeginInsideABlock) {
  const std::vector<float> scales{1, 2};
  const std::vector<std::byte> codes(4, static_cast<std::byte>(e4m3(1.0f).bits));
  std::vector<bf16> values(4);
  dequantise(reinterpret_cast<std::byte*>(values.data()), codes, scales, 126, 129);
  const std::vector<float> expected{1, 1, 2, 1};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(static_cast<float>(values[i]), expected[i]) << i;
}

// Stores the weights of one gate [4, 16] as codes of 1 with a scale of 0.25, and sets quantization_config.
void quantise(const ForeignFolder& model) {
  model.change_config([](Json& config) {
    config["quantization_config"] = {{"quant_method", "fp8"}, {"fmt", "e4m3"}, {"weight_block_size", {128, 128}}};
  });
  model.change_tensors([](RawTensors& tensors) {
    const float scale = 0.25;
    RawTensor scales{"F32", {1, 1}, std::string(sizeof scale, '\0')};
    std::memcpy(scales.bytes.data(), &scale, sizeof scale);
    tensors[std::string(gate) + "_scale_inv"] = scales;
    tensors.at(gate) = {"F8_E4M3", {4, 16}, std::string(64, static_cast<char>(e4m3(1.0f).bits))};
  });
}

TEST(Fp8Blocks, AreImportedAsBf16AndExportedWithoutScales) {
  const ForeignFolder model("mixtral");
  quantise(model);
  const ImportReport report = import_model(model.path(), model.beside("imported"));
  bool noted = false;
  for (const std::string& note : report.notes) noted = noted || note.find("dequantised") != note.npos;
  EXPECT_TRUE(noted);
  io::Checkpoint checkpoint = io::Checkpoint::open(model.beside("imported"), io::Check::full);
  device::DeviceContext memory;
  const auto weights = values_of(checkpoint.read("layers.1.moe.router.weight", io::Kind::main, memory));
  EXPECT_EQ(weights, std::vector<double>(64, 0.25));
  export_model(checkpoint, model.beside("exported"));
  const RawTensors written = tensors_of(model.beside("exported"));
  EXPECT_EQ(written.at(gate).dtype, "BF16");
  EXPECT_FALSE(written.contains(std::string(gate) + "_scale_inv"));
  EXPECT_FALSE(Json::parse(read_text(model.beside("exported") + "/config.json")).contains("quantization_config"));
}

// DeepSeek-V3 stores scales in f32, and the fp8 releases of Qwen3 store scales in bf16.
TEST(Fp8Blocks, ScalesMayHaveAnyFloatingType) {
  for (const Element type : {Element::bf16, Element::f16}) {
    const ForeignFolder model("mixtral");
    quantise(model);
    model.change_tensors([&](RawTensors& tensors) {
      RawTensor& scales = tensors.at(std::string(gate) + "_scale_inv");
      const float scale = 0.25;
      std::string bytes(static_cast<size_t>(bytes_of(type)), '\0');
      convert(reinterpret_cast<std::byte*>(bytes.data()), type, reinterpret_cast<const std::byte*>(&scale),
              Element::f32, 1);
      scales.dtype = stored(type).name, scales.bytes = bytes;
    });
    import_model(model.path(), model.beside("imported"));
    io::Checkpoint checkpoint = io::Checkpoint::open(model.beside("imported"), io::Check::full);
    device::DeviceContext memory;
    const auto weights = values_of(checkpoint.read("layers.1.moe.router.weight", io::Kind::main, memory));
    EXPECT_EQ(weights, std::vector<double>(64, 0.25)) << stored(type).name;
  }
}

TEST(Fp8Blocks, ScalesOfAnotherTypeAreRefused) {
  const ForeignFolder model("mixtral");
  quantise(model);
  model.change_tensors([](RawTensors& tensors) { tensors.at(std::string(gate) + "_scale_inv").dtype = "I32"; });
  const std::string message = message_of(ExitCode::data, [&] { import_model(model.path(), model.beside("out")); });
  EXPECT_NE(message.find("is I32 [1, 1], expected F32, BF16 or F16 [1, 1]"), message.npos) << message;
}

TEST(Fp8Blocks, MissingScalesAreRefused) {
  const ForeignFolder model("mixtral");
  quantise(model);
  model.change_tensors([](RawTensors& tensors) { tensors.erase(std::string(gate) + "_scale_inv"); });
  const std::string message = message_of(ExitCode::data, [&] { import_model(model.path(), model.beside("out")); });
  EXPECT_NE(message.find("is fp8, but the tensor of its scales"), message.npos) << message;
}

TEST(Fp8Blocks, OtherBlockSizesAreRefused) {
  const ForeignFolder model("mixtral");
  quantise(model);
  model.change_config([](Json& config) { config["quantization_config"]["weight_block_size"] = {1, 128}; });
  const std::string message = message_of(ExitCode::data, [&] { import_model(model.path(), model.beside("out")); });
  EXPECT_NE(message.find("expected quant_method fp8, fmt e4m3 or float8_e4m3fn, and weight_block_size [128, 128]"),
            message.npos)
      << message;
}

}  // namespace
}  // namespace hexad::tests
