// A file whose bytes are in the address space of the process, without being loaded: the operating
// system reads a page when it is first used, and may drop it again.
#pragma once

#include <filesystem>
#include <string_view>

namespace tessera {

///   threads   any number may read it
///   requires  the file does not become shorter while it is mapped
class MappedFile {
 public:
  ///   throws  UserError (66) when the file cannot be opened or mapped
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace tessera
