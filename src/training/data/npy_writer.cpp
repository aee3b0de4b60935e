#include "training/data/npy_writer.h"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace tessera {

std::string npy_header(const std::vector<int64_t>& shape) {
  std::string extents;
  for (int64_t extent : shape) extents += fmt::format("{}, ", extent);
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", extents);
  constexpr size_t kBefore = 10, kAlignment = 64;  // the elements begin at a multiple of 64
  header.append((kAlignment - (kBefore + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::string bytes = "\x93NUMPY";
  for (const size_t byte : {size_t{1}, size_t{0}, header.size() & 0xff, header.size() >> 8})
    bytes += static_cast<char>(byte);
  return bytes + header;
}

std::string npy_bytes(std::span<const float> values, const std::vector<int64_t>& shape) {
  static_assert(std::endian::native == std::endian::little);
  ensure(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()) ==
             std::ssize(values),
         "as many values as the shape has elements");
  std::string bytes = npy_header(shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

}  // namespace tessera
