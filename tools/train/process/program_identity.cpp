#include "tools/train/process/program_identity.h"

#include <fstream>
#include <vector>

#include "framework/base/error.h"
#include "framework/data/digest.h"
#include "tools/train/process/version.h"

namespace hexad::train {

std::string digest_of_program(const base::FileWork& work) {
  constexpr const char* path = "/proc/self/exe";
  std::ifstream file(path, std::ios::binary);
  data::StreamingDigest digest;
  std::vector<char> part(1 << 20);
  while (file.read(part.data(), static_cast<std::streamsize>(part.size())), file.gcount() > 0) {
    digest.add(part.data(), file.gcount());
    work.moved(path, file.gcount());
  }
  return digest.value().to_string();
}

std::string program_identity(const base::FileWork& work) {
  return base::cat("hexad ", version, " for ", architecture, ", digest ", digest_of_program(work));
}

}  // namespace hexad::train
