#include "training/checkpoint/index.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/json_fields.h"

namespace tessera {
namespace {

constexpr int64_t kSmallestBlock = 4096;
constexpr int64_t kMaxBlocks = 512;
constexpr const char* kUseAnother = "use another checkpoint";

Document list_of(const Shape& values) {
  return Document::List(values.begin(), values.end());
}

Document offsets_of(const Box& box) {
  Document::List offsets;
  for (const Range& range : box.ranges) offsets.emplace_back(range.begin);
  return offsets;
}

std::string checksums_text(const BlockChecksums& checksums) {
  std::string text;
  for (uint32_t checksum : checksums.blocks) text += checksum_text(checksum);
  return text;
}

std::vector<uint32_t> parse_checksums(JsonFields& fields, const std::string& key) {
  const std::string& text = fields.text(key);
  std::vector<uint32_t> checksums;
  for (size_t i = 0; i < text.size(); i += 8) {
    uint32_t value = 0;
    const char* end = text.data() + std::min(i + 8, text.size());
    if (std::from_chars(text.data() + i, end, value, 16).ptr != end || i + 8 > text.size())
      throw bad_data("'" + fields.file() + "': " + fields.where() + " has the malformed " + key +
                         " '" + text.substr(i, 8) + "'",
                     "a checksum has eight hexadecimal digits", kUseAnother);
    checksums.push_back(value);
  }
  return checksums;
}

Shape parse_shape(JsonFields& fields, const std::string& key) {
  const std::vector<int64_t> extents = fields.counts(key);
  int64_t elements = 8;  // no element type of ours is larger
  for (int64_t extent : extents)
    if (std::ssize(extents) > kMaxRank ||
        __builtin_mul_overflow(elements, std::max<int64_t>(extent, 1), &elements))
      throw bad_data("'" + fields.file() + "': " + fields.where() + " has too large a " + key,
                     "a tensor has at most 8 dims and 2^60 elements", kUseAnother);
  return Shape(extents);
}

DType parse_file_dtype(const std::string& text, const std::string& file, const std::string& where) {
  const std::optional<FileDType> dtype = find_file_dtype(text);
  const std::optional<DType> ours = dtype ? to_dtype(*dtype) : std::nullopt;
  if (!ours)
    throw bad_data("'" + file + "': " + where + " has the element type '" + text + "'",
                   "checkpoints hold F32, I32, BOOL, F64, I64, I8, U8, F16 or BF16", kUseAnother);
  return *ours;
}

/// The box at `offsets` with extents `shape`, inside of `whole`.
Box parse_box(JsonFields& fields, const Shape& shape, const Shape& whole) {
  const std::vector<int64_t> offsets = fields.counts("offsets");
  bool inside = std::ssize(offsets) == whole.size() && shape.size() == whole.size();
  for (int d = 0; inside && d < whole.size(); ++d)
    inside = offsets[d] <= whole[d] && shape[d] <= whole[d] - offsets[d];
  if (!inside)
    throw bad_data("'" + fields.file() + "': " + fields.where() + " has a part of shape [" +
                       to_text(shape) + "] at offsets [" +
                       to_text(Dims(std::span<const int64_t>(
                           offsets.data(), std::min<size_t>(offsets.size(), kMaxRank)))) +
                       "]",
                   "it must lie inside of the tensor's shape [" + to_text(whole) + "]",
                   kUseAnother);
  Box box;
  for (int d = 0; d < whole.size(); ++d) box.ranges.push_back({offsets[d], offsets[d] + shape[d]});
  return box;
}

BlockChecksums parse_block_checksums(JsonFields& fields, int64_t bytes) {
  BlockChecksums checksums{fields.count("block_bytes"), parse_checksums(fields, "checksums")};
  const int64_t block = checksums.block_bytes,
                blocks = block > 0 ? bytes / block + (bytes % block != 0) : 0;
  if (blocks != std::ssize(checksums.blocks))
    throw bad_data("'" + fields.file() + "': " + fields.where() + " has " +
                       std::to_string(checksums.blocks.size()) + " checksums",
                   std::to_string(bytes) + " bytes in blocks of " + std::to_string(block) +
                       " have " + std::to_string(blocks),
                   kUseAnother);
  return checksums;
}

int64_t bytes_of(const Box& box, DType dtype) {
  return element_count(box.shape()) * size_of(dtype);
}

void check_version(int64_t version, const std::string& file) {
  if (version == kCheckpointFormat) return;
  throw bad_data("'" + file + "' has format version " + std::to_string(version),
                 "this program reads version " + std::to_string(kCheckpointFormat),
                 "read it with the version of Tessera that wrote it");
}

}  // namespace

int64_t block_bytes_for(int64_t bytes) {
  const int64_t block = (bytes + kMaxBlocks - 1) / kMaxBlocks;
  return std::max(kSmallestBlock, (block + 63) / 64 * 64);
}

BlockChecksums block_checksums(std::span<const std::byte> bytes) {
  BlockChecksums checksums{block_bytes_for(bytes.size()), {}};
  for (const size_t block = checksums.block_bytes; !bytes.empty();
       bytes = bytes.subspan(std::min(block, bytes.size())))
    checksums.blocks.push_back(crc32c(bytes.first(std::min(block, bytes.size()))));
  return checksums;
}

Document to_document(const CheckpointIndex& index) {
  Document::Table files, tensors;
  for (const auto& [name, file] : index.files)
    files.emplace_back(name,
                       Document::Table{{"bytes", file.bytes},
                                       {"header_bytes", file.header_bytes},
                                       {"header_checksum", checksum_text(file.header_checksum)}});
  for (const auto& [name, tensor] : index.tensors) {
    Document::List parts;
    for (const IndexPart& part : tensor.parts)
      parts.emplace_back(Document::Table{{"file", part.file},
                                         {"entry", part.entry},
                                         {"offset", part.offset},
                                         {"offsets", offsets_of(part.box)},
                                         {"shape", list_of(part.box.shape())},
                                         {"block_bytes", part.checksums.block_bytes},
                                         {"checksums", checksums_text(part.checksums)}});
    tensors.emplace_back(
        name, Document::Table{{"dtype", std::string(to_text(to_file_dtype(tensor.whole.dtype)))},
                              {"shape", list_of(tensor.whole.shape)},
                              {"parts", std::move(parts)}});
  }
  return Document::Table{{"format", "tessera.checkpoint"},
                         {"version", kCheckpointFormat},
                         {"step", index.step},
                         {"ranks", index.ranks},
                         {"files", std::move(files)},
                         {"tensors", std::move(tensors)}};
}

namespace {

IndexFile parse_index_file(const std::string& name, const Document& document,
                           const std::string& file) {
  if (name.empty() || name.front() == '.' || name.find_first_of({"/\0", 2}) != std::string::npos)
    throw bad_data("'" + file + "' names the file '" + name + "'",
                   "the files of a checkpoint lie in its own folder", kUseAnother);
  JsonFields fields(document, file, "file '" + name + "'");
  IndexFile parsed{fields.count("bytes"), fields.count("header_bytes"), 0};
  const std::vector<uint32_t> checksums = parse_checksums(fields, "header_checksum");
  fields.finish();
  if (checksums.size() != 1 || parsed.header_bytes > parsed.bytes)
    throw bad_data("'" + file + "': file '" + name + "' has a header of " +
                       std::to_string(parsed.header_bytes) + " bytes with " +
                       std::to_string(checksums.size()) + " checksums",
                   "it must have one checksum, and no more bytes than the file", kUseAnother);
  parsed.header_checksum = checksums.front();
  return parsed;
}

IndexPart parse_part(const Document& document, const TensorType& whole,
                     const CheckpointIndex& index, const std::string& file,
                     const std::string& where) {
  JsonFields fields(document, file, where);
  IndexPart part{fields.text("file"), fields.text("entry"), fields.count("offset"), {}, {}};
  part.box = parse_box(fields, parse_shape(fields, "shape"), whole.shape);
  const int64_t bytes = bytes_of(part.box, whole.dtype);
  part.checksums = parse_block_checksums(fields, bytes);
  fields.finish();
  const auto stored = index.files.find(part.file);
  if (stored == index.files.end() || part.offset < stored->second.header_bytes ||
      part.offset > stored->second.bytes || bytes > stored->second.bytes - part.offset)
    throw bad_data("'" + file + "': " + where + " has " + std::to_string(bytes) +
                       " bytes at byte " + std::to_string(part.offset) + " of '" + part.file + "'",
                   "that is outside of the data of the files that it lists", kUseAnother);
  return part;
}

IndexTensor parse_index_tensor(const std::string& name, const Document& document,
                               const CheckpointIndex& index, const std::string& file) {
  const std::string where = "tensor '" + name + "'";
  JsonFields fields(document, file, where);
  IndexTensor tensor;
  tensor.whole = {parse_file_dtype(fields.text("dtype"), file, where),
                  parse_shape(fields, "shape")};
  for (const Document& part : fields.list("parts"))
    tensor.parts.push_back(parse_part(part, tensor.whole, index, file, where));
  fields.finish();
  check_parts_tile(name, tensor, file);
  return tensor;
}

}  // namespace

CheckpointIndex parse_index(const Document& document, const std::string& file) {
  JsonFields fields(document, file, "the index");
  if (fields.text("format") != "tessera.checkpoint")
    throw bad_data("'" + file + "' is no index of a checkpoint",
                   "its format is '" + fields.text("format") + "', not 'tessera.checkpoint'",
                   kUseAnother);
  check_version(fields.count("version"), file);
  CheckpointIndex index{fields.count("step"), fields.count("ranks"), {}, {}};
  for (const auto& [name, value] : fields.table("files"))
    index.files[name] = parse_index_file(name, value, file);
  for (const auto& [name, value] : fields.table("tensors"))
    index.tensors[name] = parse_index_tensor(name, value, index, file);
  fields.finish();
  return index;
}

namespace {

/// The dim in which most parts begin at different positions.
size_t telling_dim(const std::vector<const IndexPart*>& parts, int rank) {
  size_t best = 0, largest = 0;
  for (int64_t d = 0; d < rank; ++d) {
    std::set<int64_t> begins;
    for (const IndexPart* part : parts) begins.insert(part->box.ranges[d].begin);
    if (begins.size() > largest) best = d, largest = begins.size();
  }
  return best;
}

void check_no_overlap(const std::string& tensor, std::vector<const IndexPart*> parts, int rank,
                      const std::string& file) {
  const size_t dim = telling_dim(parts, rank);
  const auto range = [&](const IndexPart* part) {
    return rank == 0 ? Range{0, 1} : part->box.ranges[dim];
  };
  std::sort(parts.begin(), parts.end(), [&](const IndexPart* a, const IndexPart* b) {
    return range(a).begin < range(b).begin;
  });
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = a + 1; b < parts.size() && range(parts[b]).begin < range(parts[a]).end; ++b)
      if (!intersect(parts[a]->box, parts[b]->box).empty())
        throw bad_data("'" + file + "': tensor '" + tensor + "' is stored twice in part",
                       to_text(parts[a]->box) + " of '" + parts[a]->file + "' and " +
                           to_text(parts[b]->box) + " of '" + parts[b]->file + "' overlap",
                       "let one rank alone store each element");
}

}  // namespace

void check_parts_tile(const std::string& tensor, const IndexTensor& stored,
                      const std::string& file) {
  std::vector<const IndexPart*> parts;
  int64_t elements = 0;
  for (const IndexPart& part : stored.parts) {
    elements += element_count(part.box.shape());
    if (!part.box.empty()) parts.push_back(&part);
  }
  check_no_overlap(tensor, parts, stored.whole.shape.size(), file);
  if (elements == element_count(stored.whole.shape)) return;
  throw bad_data("'" + file + "': tensor '" + tensor + "' is incomplete",
                 "its parts hold " + std::to_string(elements) + " of the " +
                     std::to_string(element_count(stored.whole.shape)) + " elements of " +
                     to_text(stored.whole),
                 "let every element be stored by one rank");
}

FileMetadata to_metadata(const RankFile& rank_file) {
  Document::Table sharding, shapes, dtypes, parts;
  for (const auto& [name, whole] : rank_file.tensors) {
    shapes.emplace_back(name, list_of(whole.shape));
    dtypes.emplace_back(name, std::string(to_text(to_file_dtype(whole.dtype))));
  }
  for (const RankFile::Part& part : rank_file.parts) {
    sharding.emplace_back(part.entry, Document::Table{{"saved_offsets", offsets_of(part.box)}});
    parts.emplace_back(part.entry, Document::Table{{"tensor", part.tensor},
                                                   {"offsets", offsets_of(part.box)},
                                                   {"block_bytes", part.checksums.block_bytes},
                                                   {"checksums", checksums_text(part.checksums)}});
  }
  const Document file = Document::Table{
      {"version", kCheckpointFormat}, {"step", rank_file.step},      {"rank", rank_file.rank},
      {"ranks", rank_file.ranks},     {"dtypes", std::move(dtypes)}, {"parts", std::move(parts)}};
  return {{"DCP_SHARDING_INFO", to_json(sharding)},
          {"DCP_VERSION", "1.0"},
          {"format", "pt"},
          {"tessera.global_shapes", to_json(shapes)},
          {"tessera.file", to_json(file)}};
}

namespace {

Document metadata_document(const SafetensorsHeader& header, const std::string& key,
                           const std::string& file) {
  const auto found = header.metadata.find(key);
  if (found == header.metadata.end())
    throw bad_data("'" + file + "' is no file of a checkpoint", "its __metadata__ has no " + key,
                   "give the folder of a checkpoint");
  return parse_json_strictly(found->second, file);
}

RankFile::Part parse_rank_part(const FileTensor& stored, const Document& document,
                               const std::map<std::string, TensorType>& tensors,
                               const std::string& file) {
  JsonFields fields(document, file, "the entry '" + stored.name + "' of tessera.file");
  RankFile::Part part{fields.text("tensor"), stored.name, {}, {}};
  const auto whole = tensors.find(part.tensor);
  if (whole == tensors.end())
    throw bad_data(
        "'" + file + "': '" + stored.name + "' is of the unknown tensor '" + part.tensor + "'",
        "tessera.global_shapes does not list it", kUseAnother);
  part.box = parse_box(fields, stored.shape, whole->second.shape);
  part.checksums = parse_block_checksums(fields, stored.bytes());
  fields.finish();
  return part;
}

}  // namespace

RankFile parse_rank_file(const SafetensorsHeader& header, const std::string& file) {
  const Document document = metadata_document(header, "tessera.file", file),
                 shapes = metadata_document(header, "tessera.global_shapes", file);
  JsonFields fields(document, file, "tessera.file"),
      shape_fields(shapes, file, "tessera.global_shapes");
  check_version(fields.count("version"), file);
  RankFile parsed{fields.count("step"), fields.count("rank"), fields.count("ranks"), {}, {}};
  JsonFields dtypes(fields.any("dtypes"), file, "dtypes"),
      parts(fields.any("parts"), file, "parts");
  fields.finish();
  for (const auto& [name, value] : shapes.as_table())
    parsed.tensors[name] = {parse_file_dtype(dtypes.text(name), file, "tensor '" + name + "'"),
                            parse_shape(shape_fields, name)};
  for (const FileTensor& stored : header.tensors)
    parsed.parts.push_back(parse_rank_part(stored, parts.any(stored.name), parsed.tensors, file));
  dtypes.finish();
  parts.finish();
  return parsed;
}

}  // namespace tessera
