#include "training/data/array_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/files/gzip.h"
#include "base/random.h"
#include "base/tensor/narrow_float.h"
#include "base/text/text.h"
#include "training/data/stored_name.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The largest number of elements that are read, so that their bytes fit 64 bits.
constexpr int64_t kMaxElements = int64_t{1} << 40;

[[noreturn]] void refuse(const std::string& file, const std::string& what, const std::string& why,
                         const std::string& fix) {
  throw UserError("'" + file + "' " + what, why, fix, ExitCode::kBadData);
}

template <typename T>
double element(const char* place, bool big_endian) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), place, sizeof(T));
  if (big_endian != (std::endian::native == std::endian::big)) std::ranges::reverse(bytes);
  return static_cast<double>(std::bit_cast<T>(bytes));
}

/// The product of the extents; nullopt when it exceeds kMaxElements.
std::optional<int64_t> element_count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) {
    if (extent > 0 && count > kMaxElements / extent) return std::nullopt;
    count *= extent;
  }
  return count;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> words;
  for (int64_t extent : shape) words.push_back(std::to_string(extent));
  return "[" + join(words, ",") + "]";
}

/// Checks that the elements fill the file to its end.
void check_length(const std::string& file, const std::string& bytes, size_t offset, StoredType type,
                  const std::vector<int64_t>& shape) {
  const std::optional<int64_t> count = element_count_of(shape);
  const std::string wanted = fmt::format("its header, up to offset {}, says {}{}", offset,
                                         to_text(type), shape_text(shape));
  const std::string fix = "copy or download the file again";
  if (!count) refuse(file, "says that it is too large to be read", wanted, fix);
  const int64_t data = *count * size_of(type), found = std::ssize(bytes) - offset;
  if (found == data) return;
  refuse(file, found < data ? "is cut off" : "goes on after its end",
         fmt::format("{}, which is {} bytes more; the file has {}", wanted, data, found), fix);
}

// ---- .npy ----

/// The text of the header's dictionary, and the offset of the elements.
struct NpyHeader {
  std::string text;
  size_t end = 0;
};

NpyHeader npy_header(const std::string& file, const std::string& bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (!bytes.starts_with(kMagic))
    refuse(file, "is no .npy file", "such a file begins with the bytes 93 4e 55 4d 50 59",
           "write the array with numpy.save");
  const auto byte = [&](size_t at) { return at < bytes.size() ? byte_at(bytes, at) : 0; };
  const size_t version = byte(6), length_bytes = version == 1 ? 2 : 4;
  if (version != 1 && version != 2)
    refuse(file, fmt::format("has version {} at offset 6", version), "versions 1 and 2 are read",
           "write the array with numpy.save");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= byte(8 + i) << (8 * i);
  const size_t begin = 8 + length_bytes;
  if (bytes.size() < begin + length)
    refuse(file, "is cut off within its header",
           fmt::format("the header ends at offset {}; the file has {} bytes", begin + length,
                       bytes.size()),
           "copy the file again");
  return {bytes.substr(begin, length), begin + length};
}

/// The text after `'key':` in the dictionary, up to the comma or brace that ends it.
std::string npy_value(const std::string& file, const std::string& header, const std::string& key) {
  const size_t at = header.find("'" + key + "'");
  const size_t colon = at == std::string::npos ? at : header.find(':', at);
  if (colon == std::string::npos)
    refuse(file, "has a header without '" + key + "'", "it is " + header,
           "write the array with numpy.save");
  size_t end = colon + 1;
  for (int depth = 0; end < header.size(); ++end) {
    const char letter = header[end];
    depth += letter == '(' ? 1 : letter == ')' ? -1 : 0;
    if (depth == 0 && (letter == ',' || letter == '}')) break;
  }
  return std::string(trim(std::string_view(header).substr(colon + 1, end - colon - 1)));
}

StoredType npy_type(const std::string& file, const std::string& text) {
  const std::pair<std::string_view, StoredType> kKnown[] = {
      {"'<f2'", StoredType::kF16}, {"'<f4'", StoredType::kF32}, {"'<f8'", StoredType::kF64},
      {"'|i1'", StoredType::kI8},  {"'<i1'", StoredType::kI8},  {"'<i2'", StoredType::kI16},
      {"'<i4'", StoredType::kI32}, {"'<i8'", StoredType::kI64}, {"'|u1'", StoredType::kU8},
      {"'<u1'", StoredType::kU8},  {"'<u2'", StoredType::kU16}, {"'<u4'", StoredType::kU32}};
  for (const auto& [name, type] : kKnown)
    if (text == name) return type;
  refuse(file, "has elements of type " + text,
         "little-endian '<f2', '<f4', '<f8', '|i1', '<i2', '<i4', '<i8', '|u1', '<u2' and '<u4' "
         "are read",
         "convert the array with numpy's astype and save it again");
}

std::vector<int64_t> npy_shape(const std::string& file, const std::string& text) {
  std::vector<int64_t> shape;
  const bool is_tuple = text.size() >= 2 && text.front() == '(' && text.back() == ')';
  for (const std::string& word :
       split_text(is_tuple ? text.substr(1, text.size() - 2) : "x", ',')) {
    const std::string_view digits = trim(word);
    if (digits.empty()) continue;
    if (digits.size() > 12 ||
        !std::ranges::all_of(digits, [](char letter) { return letter >= '0' && letter <= '9'; }))
      refuse(file, "has a header with the shape " + text, "a shape is a tuple of whole numbers",
             "write the array with numpy.save");
    shape.push_back(std::stoll(std::string(digits)));
  }
  return shape;
}

// ---- IDX ----

std::optional<StoredType> idx_type(uint8_t code) {
  switch (code) {
    case 0x08: return StoredType::kU8;
    case 0x09: return StoredType::kI8;
    case 0x0b: return StoredType::kI16;
    case 0x0c: return StoredType::kI32;
    case 0x0d: return StoredType::kF32;
    case 0x0e: return StoredType::kF64;
    default: return std::nullopt;
  }
}

}  // namespace

std::string_view to_text(StoredType type) {
  constexpr std::array<std::string_view, 10> kNames = {"u8",  "i8",  "u16", "i16", "u32",
                                                       "i32", "i64", "f16", "f32", "f64"};
  return kNames[static_cast<size_t>(type)];
}

int64_t size_of(StoredType type) {
  constexpr std::array<int64_t, 10> kSizes = {1, 1, 2, 2, 4, 4, 8, 2, 4, 8};
  return kSizes[static_cast<size_t>(type)];
}

StoredArray::StoredArray(std::string file, std::string bytes, size_t offset, StoredType type,
                         bool big_endian, std::vector<int64_t> shape)
    : file_(std::move(file)),
      bytes_(std::move(bytes)),
      offset_(offset),
      type_(type),
      big_endian_(big_endian),
      shape_(std::move(shape)) {
  check_length(file_, bytes_, offset_, type_, shape_);
}

int64_t StoredArray::size() const {
  return std::accumulate(shape_.begin(), shape_.end(), int64_t{1}, std::multiplies<>());
}

std::string StoredArray::place_text(int64_t index) const {
  if (shape_.size() < 2) return fmt::format("index {}", index);
  std::vector<int64_t> place(shape_.size());
  for (size_t dim = shape_.size(); dim-- > 0; index /= shape_[dim])
    place[dim] = index % shape_[dim];
  return "index " + shape_text(place);
}

double StoredArray::at(int64_t index) const {
  const char* place = bytes_.data() + offset_ + index * size_of(type_);
  switch (type_) {
    case StoredType::kU8: return static_cast<uint8_t>(*place);
    case StoredType::kI8: return static_cast<int8_t>(*place);
    case StoredType::kU16: return element<uint16_t>(place, big_endian_);
    case StoredType::kI16: return element<int16_t>(place, big_endian_);
    case StoredType::kU32: return element<uint32_t>(place, big_endian_);
    case StoredType::kI32: return element<int32_t>(place, big_endian_);
    case StoredType::kI64: return element<int64_t>(place, big_endian_);
    case StoredType::kF16:
      return to_float(
          Float16::of_bits(static_cast<uint16_t>(element<uint16_t>(place, big_endian_))));
    case StoredType::kF32: return element<float>(place, big_endian_);
    case StoredType::kF64: return element<double>(place, big_endian_);
  }
  throw InternalError("unknown type of a stored array");
}

uint64_t StoredArray::fingerprint() const {
  return stable_hash(std::string_view(bytes_).substr(offset_),
                     stable_hash(fmt::format("{}{}", to_text(type_), shape_text(shape_))));
}

StoredArray read_idx(const fs::path& path) {
  const std::string file = path.string();
  std::string bytes = read_inflated(path);
  const auto byte = [&](size_t at) { return byte_at(bytes, at); };
  const std::string fix = "give a file such as train-images-idx3-ubyte, or compressed by gzip";
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    refuse(file, "is no IDX file",
           "such a file begins with two zero bytes, a type and the number of dims", fix);
  const std::optional<StoredType> type = idx_type(byte(2));
  if (!type)
    refuse(file, fmt::format("has elements of type 0x{:02x} at offset 2", byte(2)),
           "IDX has 0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32 and 0x0e f64", fix);
  const size_t dims = byte(3), end = 4 + 4 * dims;
  if (dims < 1 || dims > 8)
    refuse(file, fmt::format("has {} dims at offset 3", dims), "1 to 8 are read", fix);
  if (bytes.size() < end)
    refuse(file, "is cut off within its header",
           fmt::format("the extents of {} dims end at offset {}; the file has {} bytes", dims, end,
                       bytes.size()),
           "copy or download the file again");
  std::vector<int64_t> shape;
  for (size_t dim = 0; dim < dims; ++dim) {
    int64_t extent = 0;
    for (size_t i = 0; i < 4; ++i) extent = extent << 8 | byte(4 + 4 * dim + i);
    shape.push_back(extent);
  }
  return {file, std::move(bytes), end, *type, true, std::move(shape)};
}

StoredArray read_npy(const fs::path& path) {
  const std::string file = path.string();
  std::string bytes = read_npy_bytes(path);
  const NpyHeader header = npy_header(file, bytes);
  const StoredType type = npy_type(file, npy_value(file, header.text, "descr"));
  const std::string order = npy_value(file, header.text, "fortran_order");
  if (order != "False")
    refuse(file, "has its elements in Fortran order",
           "C order is read: the last index changes fastest",
           "save numpy.ascontiguousarray of the array");
  return {file,       std::move(bytes),
          header.end, type,
          false,      npy_shape(file, npy_value(file, header.text, "shape"))};
}

LabelledArrays read_cifar(const std::vector<fs::path>& files, int64_t classes) {
  ensure(classes == 10 || classes == 100, "a kind of CIFAR");
  constexpr size_t kImage = 3 * 32 * 32;
  const size_t labels_each = classes == 10 ? 1 : 2, record = labels_each + kImage;
  std::vector<std::string> names;
  std::string images, labels;
  for (const fs::path& path : files) {
    const std::string bytes = read_inflated(path);
    if (bytes.empty() || bytes.size() % record != 0)
      refuse(
          path.string(),
          bytes.empty()
              ? "is empty"
              : fmt::format("ends within the record at offset {}", bytes.size() / record * record),
          fmt::format("a record of CIFAR-{} is {} bytes, {} of the label and {} of the image; the "
                      "file has {} bytes",
                      classes, record, labels_each, kImage, bytes.size()),
          "give the files of the binary version, or set data.classes to the other kind, 10 or 100");
    for (size_t at = 0; at < bytes.size(); at += record) {
      labels += bytes[at + labels_each - 1];
      images.append(bytes, at + labels_each, kImage);
    }
    names.push_back(path.string());
  }
  const std::string all = join(names, ", ");
  const int64_t count = std::ssize(labels);
  return {StoredArray(all, std::move(images), 0, StoredType::kU8, false, {count, 3, 32, 32}),
          StoredArray(all + " (labels)", std::move(labels), 0, StoredType::kU8, false, {count})};
}

}  // namespace tessera
