// The safetensors format: a length, a JSON header, then the bytes of the tensors without gaps.
//
//   bytes 0..7       u64, little endian: the length N of the header
//   bytes 8..8+N     UTF-8 JSON, padded with spaces:
//                    {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]}, ...};
//                    optional "__metadata__": a table from string to string
//   from byte 8+N    the data: dense, row-major, little endian, no holes; offsets count from here
//
// Source: the format description and the reader of huggingface/safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor/tensor.h"
#include "training/checkpoint/internal/file_system.h"

namespace tessera {

/// The element types of the format. There are more than in DType, since other programs write such
/// files too.
enum class FileDType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64
};

/// "F32", "BF16", ...
std::string_view to_text(FileDType dtype);
std::optional<FileDType> find_file_dtype(std::string_view text);
int bits_of(FileDType dtype);
FileDType to_file_dtype(DType dtype);
/// The element type in memory with the same bytes; nullopt when there is none.
std::optional<DType> to_dtype(FileDType dtype);

/// A tensor of a file; offsets count from the start of the data.
struct FileTensor {
  std::string name;
  FileDType dtype = FileDType::kF32;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;

  int64_t bytes() const { return end - begin; }
};

using FileMetadata = std::map<std::string, std::string>;

struct SafetensorsHeader {
  std::vector<FileTensor> tensors;  // in the order of their bytes
  FileMetadata metadata;
  int64_t data_begin = 0;  // 8 + N

  const FileTensor* find(std::string_view name) const;
};

/// Reads and checks the header.
///
///   throws  UserError (65) that names the file and the tensor when the file is too short for its
///           header; the header is too long, is not JSON, has a name twice, or has an unknown key
///           or element type; an extent is negative, a size overflows, a tensor has more than 8
///           dims or another number of bytes than its shape; or tensors overlap, leave a hole, or
///           do not end at the end of the file
SafetensorsHeader read_safetensors_header(const InputFile& file);

/// An open safetensors file.  threads  any number at the same time
class SafetensorsFile {
 public:
  /// throws  as FileSystem::open and read_safetensors_header
  SafetensorsFile(FileSystem& files, const std::filesystem::path& path);

  const SafetensorsHeader& header() const { return header_; }
  ///   throws  UserError (65) with the most similar name when there is no such tensor
  const FileTensor& tensor(std::string_view name) const;
  /// Reads bytes [begin, begin + out.size()) of a tensor.
  ///   requires  the tensor is of this file and has these bytes
  void read(const FileTensor& tensor, int64_t begin, std::span<std::byte> out) const;
  /// Reads a whole tensor.  throws  UserError (65) when there is no such element type in memory
  Tensor read(std::string_view name) const;

 private:
  std::unique_ptr<InputFile> file_;
  SafetensorsHeader header_;
};

/// A tensor to write: dense and row-major at `data`.
struct TensorToWrite {
  std::string name;
  FileDType dtype = FileDType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
};

/// Sorts `tensors` into the order of the format (element size from the largest, then name) and
/// returns the bytes before the data.
///   requires  names are different, and none is "__metadata__"
std::string safetensors_header(std::vector<TensorToWrite>& tensors, const FileMetadata& metadata);

/// Writes a whole file without syncing it.
void write_safetensors(OutputFile& file, std::vector<TensorToWrite> tensors,
                       const FileMetadata& metadata);

}  // namespace tessera
