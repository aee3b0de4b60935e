// The contents of a checkpoint: for each box of each tensor, its file and bytes. As data and as the
// JSON of index.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "base/tensor/split.h"
#include "base/tensor/tensor.h"
#include "training/checkpoint/safetensors.h"

namespace tessera {

/// The format version of index.json and of every file of a checkpoint. It is raised when the
/// meaning of a file changes.
inline constexpr int64_t kCheckpointFormat = 1;

/// The checksums of a stored part, one for each block, so that a piece of it can be read and
/// verified without the rest.
struct BlockChecksums {
  int64_t block_bytes = 0;  // the last block may be shorter
  std::vector<uint32_t> blocks;

  bool operator==(const BlockChecksums&) const = default;
};

/// Chooses blocks of at least 4 KiB, and at most 512 of them. So a piece of a part needs at most
/// two blocks in addition to its own bytes, and the checksums take at most 1/500 of the bytes that
/// they verify.
int64_t block_bytes_for(int64_t bytes);
BlockChecksums block_checksums(std::span<const std::byte> bytes);

/// A box of a tensor that is stored contiguously in a file, dense and row-major.
struct IndexPart {
  std::string file;
  /// Its name in the file: the name of the tensor, or "w#1" for a second box of tensor 'w'.
  std::string entry;
  int64_t offset = 0;  // of its first byte, from the start of the file
  Box box;
  BlockChecksums checksums;
};

struct IndexTensor {
  TensorType whole;
  std::vector<IndexPart> parts;  // they tile the whole tensor
};

struct IndexFile {
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  uint32_t header_checksum = 0;
};

struct CheckpointIndex {
  int64_t step = 0;
  int64_t ranks = 0;
  std::map<std::string, IndexFile> files;
  std::map<std::string, IndexTensor> tensors;
};

Document to_document(const CheckpointIndex& index);
/// The inverse of to_document; `file` is for messages.
///   throws  UserError (65) for another format version, an unknown or missing key, a part outside
///           its tensor or file, or parts that do not tile
CheckpointIndex parse_index(const Document& document, const std::string& file);

///   throws  UserError (65) that names the tensor and the files when two parts overlap or a piece
///           is missing
///   time    O(parts log parts) when one dim separates the parts
void check_parts_tile(const std::string& tensor, const IndexTensor& stored,
                      const std::string& file);

/// The "__metadata__" of a rank's file: the keys that PyTorch's distributed checkpoints expect of
/// sharded safetensors, and the source of index.json.
///
///   DCP_SHARDING_INFO      {"w": {"saved_offsets": [0, 8]}} as text
///   DCP_VERSION            "1.0"
///   format                 "pt"
///   tessera.global_shapes  {"w": [8, 16]}
///   tessera.file           {"version", "step", "rank", "ranks", "dtypes": {"w": "F32"}, "parts":
///                          {"w": {tensor, offsets, block_bytes, checksums}}}
struct RankFile {
  int64_t step = 0;
  int64_t rank = 0;
  int64_t ranks = 0;
  // those of which the rank was given parts, possibly empty ones
  std::map<std::string, TensorType> tensors;
  struct Part {
    std::string tensor, entry;
    Box box;
    BlockChecksums checksums;
  };
  std::vector<Part> parts;
};

FileMetadata to_metadata(const RankFile& rank_file);
/// throws  UserError (65) when the file was not written by this program
RankFile parse_rank_file(const SafetensorsHeader& header, const std::string& file);

}  // namespace tessera
