#include "base/files/missing_path.h"

#include <system_error>

namespace tessera {

std::string unexpanded_note(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return "";
  const std::string text = path.string();
  if (text.starts_with("~")) return "; '~' is expanded by a shell, not here: write the whole path";
  if (text.find_first_of("*?[") != std::string::npos)
    return "; patterns are not expanded here: name the folder, or each file";
  return "";
}

}  // namespace tessera
