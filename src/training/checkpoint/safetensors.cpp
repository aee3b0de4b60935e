#include "training/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "base/files/document.h"
#include "training/checkpoint/json_fields.h"

namespace tessera {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100'000'000;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kFetchAgain =
    "fetch the file again, or write it again with a tool that keeps to the format";

struct DTypeRow {
  FileDType dtype;
  std::string_view name;
  int bits;
};

constexpr std::array<DTypeRow, 20> kFileDTypes = {{
    {FileDType::kBool, "BOOL", 8},      {FileDType::kF4, "F4", 4},
    {FileDType::kF6E2M3, "F6_E2M3", 6}, {FileDType::kF6E3M2, "F6_E3M2", 6},
    {FileDType::kU8, "U8", 8},          {FileDType::kI8, "I8", 8},
    {FileDType::kF8E5M2, "F8_E5M2", 8}, {FileDType::kF8E4M3, "F8_E4M3", 8},
    {FileDType::kF8E8M0, "F8_E8M0", 8}, {FileDType::kI16, "I16", 16},
    {FileDType::kU16, "U16", 16},       {FileDType::kF16, "F16", 16},
    {FileDType::kBF16, "BF16", 16},     {FileDType::kI32, "I32", 32},
    {FileDType::kU32, "U32", 32},       {FileDType::kF32, "F32", 32},
    {FileDType::kC64, "C64", 64},       {FileDType::kF64, "F64", 64},
    {FileDType::kI64, "I64", 64},       {FileDType::kU64, "U64", 64},
}};

const DTypeRow& row_of(FileDType dtype) {
  return *std::find_if(kFileDTypes.begin(), kFileDTypes.end(),
                       [&](const DTypeRow& row) { return row.dtype == dtype; });
}

std::string count_text(uint64_t count) {
  return std::to_string(count);
}

}  // namespace

std::string_view to_text(FileDType dtype) {
  return row_of(dtype).name;
}

int bits_of(FileDType dtype) {
  return row_of(dtype).bits;
}

std::optional<FileDType> find_file_dtype(std::string_view text) {
  for (const DTypeRow& row : kFileDTypes)
    if (row.name == text) return row.dtype;
  return std::nullopt;
}

FileDType to_file_dtype(DType dtype) {
  return find_file_dtype(traits(dtype).safetensors).value();
}

std::optional<DType> to_dtype(FileDType dtype) {
  for (const DTypeTraits& ours : kDTypes)
    if (ours.safetensors == to_text(dtype)) return ours.dtype;
  return std::nullopt;
}

const FileTensor* SafetensorsHeader::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const FileTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

namespace {

/// The text of the header, whose length has been checked.
std::string header_text(const InputFile& file) {
  const std::string name = "'" + file.path().string() + "'";
  const uint64_t size = file.size();
  if (size < kLengthBytes)
    throw bad_data(
        name + " is no safetensors file",
        "it has " + count_text(size) + " bytes, and the length of the header alone takes 8",
        kFetchAgain);
  uint64_t length = 0;
  file.read_at(0, std::as_writable_bytes(std::span<uint64_t>(&length, 1)));
  if (length > kLongestHeader)
    throw bad_data(
        name + " is no safetensors file",
        "its header would have " + count_text(length) + " bytes, and at most 100000000 are allowed",
        kFetchAgain);
  if (length > size - kLengthBytes)
    throw bad_data(name + " is cut off",
                   "its header takes bytes 8 to " + count_text(8 + length) + ", and the file has " +
                       count_text(size) + " bytes",
                   kFetchAgain);
  std::string text(length, '\0');
  file.read_at(kLengthBytes, std::as_writable_bytes(std::span<char>(text)));
  if (!text.starts_with('{'))
    throw bad_data(name + " is no safetensors file", "its header does not start with '{'",
                   kFetchAgain);
  return text;
}

FileMetadata parse_metadata(const Document& table, const std::string& file) {
  JsonFields(table, file, kMetadata);
  FileMetadata metadata;
  for (const auto& [key, value] : table.as_table()) {
    if (!value.is_string())
      throw bad_data("'" + file + "': " + kMetadata + " has " + key + " = " + to_json(value),
                     "its values must be strings", kFetchAgain);
    metadata[key] = value.as_string();
  }
  return metadata;
}

/// The bytes of a tensor; nullopt when they exceed an integer, or are not a whole number.
std::optional<int64_t> bytes_of(FileDType dtype, const Shape& shape) {
  int64_t bits = bits_of(dtype);
  // An extent of 0 does not make the others legal: strides are products of them too.
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(bits, std::max<int64_t>(extent, 1), &bits)) return std::nullopt;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

FileTensor parse_tensor(const std::string& name, const Document& table, const std::string& file) {
  const std::string where = "tensor '" + name + "'";
  JsonFields fields(table, file, where);
  const std::string dtype_name = fields.text("dtype");
  const std::vector<int64_t> extents = fields.counts("shape"),
                             offsets = fields.counts("data_offsets");
  fields.finish();

  const std::string start = "'" + file + "': " + where;
  const std::optional<FileDType> dtype = find_file_dtype(dtype_name);
  if (!dtype) {
    std::string names;
    for (const DTypeRow& row : kFileDTypes)
      names += (names.empty() ? "" : ", ") + std::string(row.name);
    throw bad_data(start + " has the unknown element type '" + dtype_name + "'",
                   "those of the format are " + names, "convert the tensor to one of them");
  }
  if (std::ssize(extents) > kMaxRank)
    throw bad_data(start + " has " + std::to_string(extents.size()) + " dims",
                   "at most " + std::to_string(kMaxRank) + " are supported",
                   "reshape the tensor before it is saved");
  FileTensor tensor{name, *dtype, Shape(extents), 0, 0};
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw bad_data(start + " has data_offsets = " + to_json(*table.find("data_offsets")),
                   "they must be a begin and an end not before it", kFetchAgain);
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  const std::optional<int64_t> bytes = bytes_of(*dtype, tensor.shape);
  if (bytes != tensor.bytes())
    throw bad_data(
        start + " has " + std::to_string(tensor.bytes()) + " bytes",
        dtype_name + "[" + to_text(tensor.shape) + "] takes " +
            (bytes ? std::to_string(*bytes) : "no whole number of bytes, or 2^60 and more"),
        kFetchAgain);
  return tensor;
}

/// Checks that the tensors, in the order of their bytes, fill the data without holes and overlaps.
void check_tiling(const std::vector<FileTensor>& tensors, int64_t data_bytes,
                  const std::string& file) {
  int64_t end = 0;
  std::string before = "the start of the data";
  for (const FileTensor& tensor : tensors) {
    const std::string here = "tensor '" + tensor.name + "'";
    if (tensor.begin != end)
      throw bad_data("'" + file + "': " + here +
                         (tensor.begin < end ? " overlaps " : " does not follow on ") + before,
                     "it begins at byte " + std::to_string(tensor.begin) +
                         " of the data, and must begin at " + std::to_string(end),
                     kFetchAgain);
    end = tensor.end;
    before = here;
  }
  if (end == data_bytes) return;
  throw bad_data(
      "'" + file + "'" + (end > data_bytes ? " is cut off" : " has bytes that belong to no tensor"),
      "its tensors have " + std::to_string(end) + " bytes, and " + std::to_string(data_bytes) +
          " bytes follow the header",
      kFetchAgain);
}

}  // namespace

SafetensorsHeader read_safetensors_header(const InputFile& file) {
  const std::string text = header_text(file);
  const std::string name = file.path().string();
  const Document document = parse_json_strictly(text, name);
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + text.size();
  for (const auto& [key, value] : document.as_table()) {
    if (key == kMetadata)
      header.metadata = parse_metadata(value, name);
    else
      header.tensors.push_back(parse_tensor(key, value, name));
  }
  // Empty tensors begin where a neighbour begins, and they come first.
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const FileTensor& a, const FileTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  check_tiling(header.tensors, file.size() - header.data_begin, name);
  return header;
}

SafetensorsFile::SafetensorsFile(FileSystem& files, const std::filesystem::path& path)
    : file_(files.open(path)), header_(read_safetensors_header(*file_)) {}

const FileTensor& SafetensorsFile::tensor(std::string_view name) const {
  if (const FileTensor* found = header_.find(name)) return *found;
  std::vector<std::string> names;
  for (const FileTensor& tensor : header_.tensors) names.push_back(tensor.name);
  const std::string best = nearest(name, names);
  throw bad_data(
      "'" + file_->path().string() + "' has no tensor '" + std::string(name) + "'",
      best.empty() ? "none of its tensors has a similar name" : "the nearest is '" + best + "'",
      "check that the file belongs to this model");
}

void SafetensorsFile::read(const FileTensor& tensor, int64_t begin,
                           std::span<std::byte> out) const {
  ensure(begin >= 0 && begin + std::ssize(out) <= tensor.bytes(), "bytes of a tensor");
  file_->read_at(header_.data_begin + tensor.begin + begin, out);
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const FileTensor& found = tensor(name);
  const std::optional<DType> dtype = to_dtype(found.dtype);
  if (!dtype)
    throw bad_data("'" + file_->path().string() + "': tensor '" + std::string(name) + "' is of " +
                       std::string(to_text(found.dtype)),
                   "tensors in memory are of F32, I32, BOOL, F64, I64, I8, U8, F16 or BF16",
                   "convert the tensor to one of these");
  Tensor result(TensorType{*dtype, found.shape});
  read(found, 0, std::span<std::byte>(result.data(), found.bytes()));
  return result;
}

std::string safetensors_header(std::vector<TensorToWrite>& tensors, const FileMetadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorToWrite& a, const TensorToWrite& b) {
    return bits_of(a.dtype) != bits_of(b.dtype) ? bits_of(a.dtype) > bits_of(b.dtype)
                                                : a.name < b.name;
  });
  Document::Table table;
  if (!metadata.empty()) {
    Document::Table values;
    for (const auto& [key, value] : metadata) values.emplace_back(key, value);
    table.emplace_back(kMetadata, std::move(values));
  }
  int64_t begin = 0;
  for (const TensorToWrite& tensor : tensors) {
    ensure(tensor.name != kMetadata, "a tensor must not be named __metadata__");
    const std::optional<int64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    ensure(bytes.has_value(), "a tensor has a whole number of bytes");
    Document::List shape(tensor.shape.begin(), tensor.shape.end());
    Document::List offsets{begin, begin + *bytes};
    table.emplace_back(tensor.name, Document::Table{{"dtype", std::string(to_text(tensor.dtype))},
                                                    {"shape", shape},
                                                    {"data_offsets", offsets}});
    begin += *bytes;
  }
  std::string json = to_json(table);
  json.resize((json.size() + 7) / 8 * 8,
              ' ');  // so that every tensor is aligned to its elements in the file
  const uint64_t length = json.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + json;
}

void write_safetensors(OutputFile& file, std::vector<TensorToWrite> tensors,
                       const FileMetadata& metadata) {
  file.append(safetensors_header(tensors, metadata));
  for (const TensorToWrite& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor.dtype, tensor.shape).value_or(0);
    if (bytes > 0) file.append(std::span<const std::byte>(tensor.data, bytes));
  }
}

}  // namespace tessera
