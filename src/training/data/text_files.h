// Files and folders as one text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/stable_file.h"
#include "base/tensor/split.h"

namespace tessera {

/// All the text of files and folders, in a fixed order, up to a limit. The rest is left out, and so
/// is a UTF-8 character that the limit would divide.
///
///   order    by path, folder by folder and recursively; a file that is named twice is read once
///   skips    files that are not text (a zero byte in the first 4096)
///   memory   files of 64 KiB and more are read when they are needed, 64 KiB at a time; smaller
///   ones
///            are loaded
///   changes  a file that is not loaded and that another program writes into is an error of
///            visit() and text() (StableFile)
///   threads  any number may read it
class TextFiles {
 public:
  ///   max_bytes  0: no limit
  ///   throws     UserError: 66 when a path is missing or cannot be read, 65 when no file has text
  explicit TextFiles(const std::vector<std::filesystem::path>& paths, int64_t max_bytes = 0);

  /// Bytes of the text.
  int64_t size() const { return size_; }
  /// Bytes of text in the files that the limit leaves out.
  int64_t left_out() const { return left_out_; }
  /// Calls `visit` with the parts of a range, in order.
  ///   requires  the range is within the text
  ///   throws    UserError (65) when a file has changed since the constructor
  void visit(Range range, const std::function<void(std::string_view)>& visit) const;
  /// The file that has byte `offset` of the text, and the place of that byte in it.
  ///   requires  0 <= offset < size()
  std::pair<std::filesystem::path, int64_t> file_at(int64_t offset) const;
  /// The whole text in memory.
  std::string text() const;

 private:
  /// A part of the text, and its position: loaded bytes, or the first bytes of a file.
  struct Part {
    int64_t begin = 0;
    std::string_view loaded;
    int64_t size = 0;
    std::shared_ptr<const StableFile> file;  // nullptr: loaded
  };

  /// Adds the text of a file, of which at most `largest` bytes are used.
  void add(const std::filesystem::path& path, int64_t largest);
  void add_loaded(std::string text);

  std::vector<std::string> loaded_;  // each at most a block, so that they do not move
  std::vector<Part> parts_;
  std::map<int64_t, std::filesystem::path> begins_;  // where the text of each file begins
  int64_t size_ = 0;
  int64_t left_out_ = 0;
  int empty_files_ = 0, other_files_ = 0, held_files_ = 0;
};

/// TextFiles(paths, max_bytes).text().
std::string read_text(const std::vector<std::filesystem::path>& paths, int64_t max_bytes = 0);

}  // namespace tessera
