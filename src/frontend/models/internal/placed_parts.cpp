#include "frontend/models/internal/placed_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>

#include "base/error.h"

namespace tessera {
namespace {

struct Part {
  std::vector<int64_t> begin, extent;  // by dim
};

std::vector<int64_t> coordinate_of(int64_t rank, const std::vector<int64_t>& mesh) {
  std::vector<int64_t> coordinate(mesh.size());
  for (size_t axis = mesh.size(); axis-- > 0; rank /= mesh[axis])
    coordinate[axis] = rank % mesh[axis];
  return coordinate;
}

/// The part of a rank, as torch.chunk gives it.
Part part_of(const Shape& shape, const std::vector<int>& dims, const std::vector<int64_t>& mesh,
             int64_t rank) {
  Part part{std::vector<int64_t>(shape.size(), 0),
            std::vector<int64_t>(shape.begin(), shape.end())};
  const std::vector<int64_t> at = coordinate_of(rank, mesh);
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 0) continue;
    const auto dim = static_cast<size_t>(dims[axis]);
    const int64_t each = (part.extent[dim] + mesh[axis] - 1) / mesh[axis];
    const int64_t first = std::min(part.extent[dim], at[axis] * each);
    part.begin[dim] += first;
    part.extent[dim] = std::min(each, part.extent[dim] - first);
  }
  return part;
}

/// Calls back with the offset in the whole tensor and in the part of each row of the last dim.
void for_each_row(const Shape& shape, const Part& part,
                  const std::function<void(int64_t whole, int64_t local, int64_t count)>& row) {
  const auto rank = static_cast<size_t>(shape.size());
  const int64_t count = rank == 0 ? 1 : part.extent[rank - 1];
  int64_t rows = 1;
  for (size_t dim = 0; dim + 1 < rank; ++dim) rows *= part.extent[dim];
  if (count == 0) return;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t rest = i, whole = 0, stride = rank == 0 ? 1 : shape[rank - 1];
    for (size_t dim = rank < 2 ? 0 : rank - 1; dim-- > 0;) {
      whole += (part.begin[dim] + rest % part.extent[dim]) * stride;
      rest /= part.extent[dim];
      stride *= shape[dim];
    }
    row(whole + (rank == 0 ? 0 : part.begin[rank - 1]), i * count, count);
  }
}

[[noreturn]] void refuse_part(const std::string& tensor, int64_t rank, const std::string& why) {
  throw UserError(fmt::format("rank {} has no usable part of '{}'", rank, tensor), why,
                  "dump every parameter on every rank, with the placements that it has",
                  ExitCode::kBadData);
}

class Assembly {
 public:
  Assembly(FileSystem& files, const std::filesystem::path& folder, const std::string& name,
           const PlacedTensors& placed)
      : placed_(placed) {
    for (int64_t rank = 0; rank < placed.ranks(); ++rank)
      files_.push_back(std::make_unique<SafetensorsFile>(
          files, folder / ("rank-" + std::to_string(rank)) / (name + ".safetensors")));
  }

  WholeTensors run() {
    WholeTensors tensors;
    for (const FileTensor& tensor : files_.front()->header().tensors) add(tensor, tensors);
    return tensors;
  }

 private:
  const FileTensor& entry(const std::string& name, int64_t rank) const {
    const FileTensor* tensor = files_[static_cast<size_t>(rank)]->header().find(name);
    if (!tensor) refuse_part(name, rank, "its file does not have it");
    return *tensor;
  }

  /// The extents of the parts add up along the axes that divide a dim.
  Shape whole_shape(const std::string& name, const std::vector<int>& dims) const {
    Shape shape = entry(name, 0).shape;
    std::fill(shape.begin(), shape.end(), 0);
    for (int64_t rank = 0; rank < placed_.ranks(); ++rank) {
      const Shape& local = entry(name, rank).shape;
      if (local.size() != shape.size()) refuse_part(name, rank, "it has another number of dims");
      const std::vector<int64_t> at = coordinate_of(rank, placed_.mesh);
      for (int dim = 0; dim < shape.size(); ++dim) {
        bool counts = true;  // the ranks that are first on all axes that do not divide this dim
        for (size_t axis = 0; axis < at.size(); ++axis)
          counts = counts && (at[axis] == 0 || (axis < dims.size() && dims[axis] == dim));
        if (counts) shape[dim] += local[dim];
      }
    }
    return shape;
  }

  void add(const FileTensor& tensor, WholeTensors& tensors) {
    const auto found = placed_.dims.find(tensor.name);
    const std::vector<int> dims = found == placed_.dims.end() ? std::vector<int>() : found->second;
    for (const int dim : dims)
      if (dim >= static_cast<int>(tensor.shape.size()))
        refuse_part(tensor.name, 0, fmt::format("it has no dim {}", dim));
    WholeTensor whole{tensor.dtype, whole_shape(tensor.name, dims), {}};
    const int64_t elements =
        std::accumulate(whole.shape.begin(), whole.shape.end(), int64_t{1}, std::multiplies<>());
    const int64_t size = bits_of(tensor.dtype) / 8;
    whole.bytes.resize(static_cast<size_t>(elements * size));
    std::vector<bool> is_set(static_cast<size_t>(elements));
    for (int64_t rank = 0; rank < placed_.ranks(); ++rank) {
      const FileTensor& local = entry(tensor.name, rank);
      const Part part = part_of(whole.shape, dims, placed_.mesh, rank);
      if (local.dtype != tensor.dtype ||
          std::vector<int64_t>(local.shape.begin(), local.shape.end()) != part.extent)
        refuse_part(tensor.name, rank,
                    "its shape or element type is not that of torch.chunk of the whole tensor");
      std::vector<std::byte> bytes(static_cast<size_t>(local.bytes()));
      files_[static_cast<size_t>(rank)]->read(local, 0, bytes);
      if (!place(part, bytes, size, whole, is_set))
        differing_.push_back({static_cast<int>(rank), part, std::move(bytes)});
    }
    for (const Differing& differing : differing_) {
      WholeTensor& other = tensors.differing[differing.rank][tensor.name] = whole;
      for_each_row(whole.shape, differing.part, [&](int64_t at, int64_t from, int64_t count) {
        std::memcpy(other.bytes.data() + at * size, differing.bytes.data() + from * size,
                    static_cast<size_t>(count * size));
      });
    }
    differing_.clear();
    tensors.first[tensor.name] = std::move(whole);
  }

  /// Adds a part. Is it the same as that of a rank before?
  static bool place(const Part& part, std::span<const std::byte> bytes, int64_t size,
                    WholeTensor& whole, std::vector<bool>& is_set) {
    bool is_same = true;
    for_each_row(whole.shape, part, [&](int64_t at, int64_t from, int64_t count) {
      std::byte* to = whole.bytes.data() + at * size;
      const std::byte* own = bytes.data() + from * size;
      if (!is_set[static_cast<size_t>(at)]) {
        std::memcpy(to, own, static_cast<size_t>(count * size));
        std::fill_n(is_set.begin() + at, count, true);
      } else {
        is_same = is_same && std::memcmp(to, own, static_cast<size_t>(count * size)) == 0;
      }
    });
    return is_same;
  }

  struct Differing {
    int rank = 0;
    Part part;
    std::vector<std::byte> bytes;
  };

  const PlacedTensors& placed_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<Differing> differing_ = {};  // of the present tensor
};

}  // namespace

int64_t PlacedTensors::ranks() const {
  return std::accumulate(mesh.begin(), mesh.end(), int64_t{1}, std::multiplies<>());
}

WholeTensors whole_tensors(FileSystem& files, const std::filesystem::path& folder,
                           const std::string& name, const PlacedTensors& placed) {
  return Assembly(files, folder, name, placed).run();
}

}  // namespace tessera
