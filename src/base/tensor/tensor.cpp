#include "base/tensor/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>

namespace tessera {
namespace {

[[noreturn]] void bad_type(std::string_view text) {
  throw UserError("'" + std::string(text) + "' is not a tensor type",
                  "a tensor type is an element type and its extents",
                  "write it as f32[8,16], i32[4] or bool[]; a scalar is f32[]");
}

}  // namespace

std::string to_text(const TensorType& type) {
  return std::string(to_text(type.dtype)) + "[" + to_text(type.shape) + "]";
}

TensorType parse_tensor_type(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos || !text.ends_with(']')) bad_type(text);
  TensorType type{parse_dtype(text.substr(0, open)), {}};
  std::string_view list = text.substr(open + 1, text.size() - open - 2);
  while (!list.empty()) {
    while (list.starts_with(' ')) list.remove_prefix(1);
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), extent);
    if (error != std::errc{} || extent < 0 || type.shape.size() == kMaxRank) bad_type(text);
    list.remove_prefix(end - list.data());
    if (!list.empty() && list.front() != ',') bad_type(text);
    if (list == ",") bad_type(text);
    if (!list.empty()) list.remove_prefix(1);
    type.shape.push_back(extent);
  }
  return type;
}

Bytes byte_size(const TensorType& type) {
  return Bytes(element_count(type.shape) * size_of(type.dtype));
}

AlignedBuffer::AlignedBuffer(Bytes size) : size_(size) {
  const size_t bytes = std::max<int64_t>(size.value(), 1);
  data_.reset(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kTensorAlignment))));
  std::memset(data_.get(), 0, bytes);
}

void AlignedBuffer::Free::operator()(std::byte* data) const {
  ::operator delete(data, std::align_val_t(kTensorAlignment));
}

Tensor Tensor::clone() const {
  if (data() == nullptr) return {};
  Tensor copy(type_);
  std::memcpy(copy.data(), data(), byte_size(type_).value());
  return copy;
}

}  // namespace tessera
