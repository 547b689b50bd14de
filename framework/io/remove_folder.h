// Removal of a checkpoint's folder, file by file, with progress reports for waiting ranks.
#pragma once

#include <string>
#include <system_error>

#include "framework/base/file_work.h"

namespace hexad::io {

/// Removes `folder` like std::filesystem::remove_all(): a missing folder is not an error. Reports progress to `work`.
/// Sets `error` if the removal fails, and clears it otherwise.
void remove_folder(const std::string& folder, const base::FileWork& work, std::error_code& error);

}  // namespace hexad::io
