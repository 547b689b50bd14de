// The text model in the config.json of a larger model, such as a model with a vision encoder.
#pragma once

#include <string>
#include <string_view>

namespace hexad::interop {

/// Returns the config.json of the text model of a larger model, whose config.json has the section text_config. Keys
/// that the larger model states for the text model, such as torch_dtype and quantization_config, are copied into the
/// result. Returns the text unchanged if model_type does not name a larger model (Family::larger). Throws Error(data)
/// if text_config is missing, is of another family or contradicts the larger model, or if a key beside text_config is
/// unknown. The message begins with `where`.
std::string text_part(const std::string& config, const std::string& where);

}  // namespace hexad::interop
