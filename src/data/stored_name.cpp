#include "data/stored_name.h"

namespace tessera {

std::string stored_ending(const std::filesystem::path& name) {
  return name.extension().string();
}

bool is_npy(const std::filesystem::path& name) {
  return stored_ending(name) == ".npy";
}

}  // namespace tessera
