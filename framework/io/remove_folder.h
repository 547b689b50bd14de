// Removing a checkpoint's folder file by file, so that those who wait see it move.
#pragma once

#include <string>
#include <system_error>

#include "framework/base/file_work.h"

namespace hexad::io {

/// Like std::filesystem::remove_all: a missing folder is no error.
void remove_folder(const std::string& folder, const base::FileWork& work, std::error_code& error);

}  // namespace hexad::io
