// For the tests of this module: tensors in which the value of each element identifies it, stored
// and checked in any boxes.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/testing/error.h"
#include "training/checkpoint/checkpoint.h"

namespace tessera {

/// A box that a rank stores.
struct OwnedBox {
  std::string tensor;
  TensorType whole;
  Box box;
};

/// The boxes that each rank stores.
using Owners = std::vector<std::vector<OwnedBox>>;

/// The bytes of a box. Element `index` of a tensor is seed + index, exact below 2^24; a boolean
/// element tells whether that is odd. It is written from the definition, one element after the
/// other.
inline std::vector<std::byte> box_bytes(const TensorType& whole, const Box& box, int64_t seed) {
  std::vector<std::byte> bytes;
  const Dims strides = row_major_strides(whole.shape);
  const Shape shape = box.shape();
  const int64_t count = element_count(shape);
  for (int64_t element = 0; element < count; ++element) {
    int64_t rest = element, index = 0;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index += (box.ranges[d].begin + rest % shape[d]) * strides[d];
      rest /= shape[d];
    }
    const auto integer = static_cast<int32_t>(seed + index);
    const auto real = static_cast<float>(integer);
    const auto boolean = static_cast<uint8_t>(integer & 1);
    const auto* from = whole.dtype == DType::kF32   ? reinterpret_cast<const std::byte*>(&real)
                       : whole.dtype == DType::kI32 ? reinterpret_cast<const std::byte*>(&integer)
                                                    : reinterpret_cast<const std::byte*>(&boolean);
    bytes.insert(bytes.end(), from, from + size_of(whole.dtype));
  }
  return bytes;
}

/// Stores the boxes that one rank owns.
inline void store_owned(CheckpointFolder& folder, int64_t step, Rank rank, const Owners& owners) {
  std::vector<std::vector<std::byte>> data;
  std::vector<StoredPart> parts;
  for (const OwnedBox& owned : owners[rank]) {
    data.push_back(box_bytes(owned.whole, owned.box, step));
    parts.push_back({owned.tensor, owned.box, owned.whole.dtype, owned.whole, data.back().data()});
  }
  folder.store(step, rank, static_cast<int>(owners.size()), parts);
}

inline Document state_of(int64_t step) {
  return Document::Table{{"step", step}, {"data_position", step * 8}};
}

/// Stores a whole checkpoint, rank after rank.
inline void save(FileSystem& files, const std::string& path, int64_t step, const Owners& owners,
                 const Retention& retention = 0) {
  CheckpointFolder folder(files, path);
  folder.begin(step);
  for (size_t rank = 0; rank < owners.size(); ++rank)
    store_owned(folder, step, static_cast<Rank>(rank), owners);
  folder.commit(step, static_cast<int>(owners.size()), state_of(step),
                Document::Table{{"plan", "serial"}}, retention);
}

inline std::vector<std::byte> load(const Checkpoint& checkpoint, const std::string& tensor,
                                   const Box& box) {
  const TensorType whole = checkpoint.index().tensors.at(tensor).whole;
  std::vector<std::byte> bytes(
      static_cast<size_t>(element_count(box.shape()) * size_of(whole.dtype)));
  checkpoint.load_box(tensor, box, bytes.data());
  return bytes;
}

/// The box of part `index` of `parts` along one dim.
inline Box part_of(const Shape& shape, int dim, int64_t parts, int64_t index) {
  Box box = whole_box(shape);
  box.ranges[dim] = balanced_part(shape[dim], parts, index);
  return box;
}

/// Every rank stores its balanced part of `tensor` along `dim`.
inline Owners split_over_ranks(const std::string& tensor, const TensorType& whole, int dim,
                               int64_t ranks) {
  Owners owners;
  for (int64_t rank = 0; rank < ranks; ++rank)
    owners.push_back({{tensor, whole, part_of(whole.shape, dim, ranks, rank)}});
  return owners;
}

using error_testing::message_of;

}  // namespace tessera
