#include "base/dims.h"

namespace tessera {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

Dims row_major_strides(const Shape& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  for (int d = shape.size() - 2; d >= 0; --d) strides[d] = strides[d + 1] * shape[d + 1];
  return strides;
}

std::string to_text(const Dims& dims) {
  std::string text;
  for (int i = 0; i < dims.size(); ++i) text += (i ? "," : "") + std::to_string(dims[i]);
  return text;
}

}  // namespace tessera
