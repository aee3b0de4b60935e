#include "training/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "base/text/text.h"
#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/internal/box_runs.h"
#include "training/checkpoint/json_fields.h"
#include "training/checkpoint/truncate_list.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMaxBytesPerRead = int64_t{8} << 20;
// A process may open about a thousand files, and a run may have more ranks.
constexpr size_t kMaxOpenShards = 64;
constexpr const char* kDamaged = "use another checkpoint";
constexpr const char* kChecksumsHead = "tessera.checkpoint ";

/// Copies the part of the runs that is in `data`, the bytes `got` of a part, and leaves `runs` at
/// the first run that continues after it.
void copy_runs(BoxRuns& runs, Range got, const std::byte* data, std::byte* out) {
  for (; !runs.done(); runs.next()) {
    const Run& run = runs.run();
    const int64_t begin = std::max(run.from, got.begin),
                  end = std::min(run.from + run.bytes, got.end);
    if (begin < end)
      std::memcpy(out + run.to + (begin - run.from), data + (begin - got.begin),
                  static_cast<size_t>(end - begin));
    if (run.from + run.bytes > got.end) return;
  }
}

/// The next range of whole blocks, without gaps, that `runs` needs. Moves `runs` to its end.
Range next_stretch(BoxRuns& runs, int64_t block, int64_t bytes) {
  const auto blocks_of = [&](const Run& run) {
    return Range{run.from / block * block, (run.from + run.bytes + block - 1) / block * block};
  };
  Range stretch = blocks_of(runs.run());
  for (runs.next(); !runs.done() && blocks_of(runs.run()).begin <= stretch.end; runs.next())
    stretch.end = std::max(stretch.end, blocks_of(runs.run()).end);
  stretch.end = std::min(stretch.end, bytes);
  return stretch;
}

/// `stretch` in pieces of whole blocks, each of which is read at once.
template <typename Take>
void for_each_piece(Range stretch, int64_t block, Take take) {
  const int64_t piece = std::max<int64_t>(1, kMaxBytesPerRead / block) * block;
  for (int64_t begin = stretch.begin; begin < stretch.end; begin += piece)
    take(Range{begin, std::min(begin + piece, stretch.end)});
}

int64_t bytes_of(const IndexPart& part, const IndexTensor& stored) {
  return element_count(part.box.shape()) * size_of(stored.whole.dtype);
}

}  // namespace

std::string checkpoint_name(int64_t step) {
  const std::string digits = std::to_string(step);
  return "step-" + std::string(8 - std::min<size_t>(8, digits.size()), '0') + digits;
}

std::optional<int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with("step-")) return std::nullopt;
  name.remove_prefix(5);
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  const std::string_view ending = name.substr(digits);
  if (digits < 8 || digits > 18 ||
      !(ending.empty() || ending == ".tmp" || ending == ".replaced" || ending == ".removing"))
    return std::nullopt;
  return std::stoll(std::string(name.substr(0, digits)));
}

std::string rank_file_name(Rank rank) {
  const std::string digits = std::to_string(rank);
  return "shard-" + std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits +
         "-model-00001-of-00001.safetensors";
}

std::string checksums_of(const std::string& index, const std::string& state,
                         const std::string& plan) {
  const auto line = [](const std::string& text, const char* name) {
    return checksum_text(crc32c(text)) + " " + std::to_string(text.size()) + " " + name + "\n";
  };
  return kChecksumsHead + std::to_string(kCheckpointFormat) + "\n" + line(index, "index.json") +
         line(state, "state.json") + line(plan, "plan.json");
}

/// Turns an error of this checkpoint into one that names the earlier one to use.
void Checkpoint::with_advice(const std::function<void()>& work) const try {
  work();
} catch (const UserError& error) {
  if (advice_ == Advice::kNone) throw;
  const std::optional<int64_t> step = step_of_name(folder_.filename().string());
  const std::optional<int64_t> good =
      step ? CheckpointFolder(files_, folder_of(folder_)).good_before(*step) : std::nullopt;
  throw bad_data(
      error.what_happened(), error.why(),
      good ? "resume from " + checkpoint_name(*good) +
                 ", the newest earlier checkpoint whose every byte is good"
           : "no earlier checkpoint is good: restore the file from a copy, or start the run anew");
}

Checkpoint::Checkpoint(FileSystem& files, fs::path folder, Advice advice)
    : files_(files), folder_(std::move(folder)), advice_(advice) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // "step-00001000/"
  if (!files_.is_folder(folder_)) throw cannot_read_error(folder_, "there is no such folder");
  with_advice([&] { open(); });
}

void Checkpoint::open() {
  const std::string index = read_whole(files_, folder_ / "index.json"),
                    state = read_whole(files_, folder_ / "state.json"),
                    plan = read_whole(files_, folder_ / "plan.json");
  check_documents(index, state, plan);
  const auto parse = [&](const std::string& text, const char* name) {
    return parse_json_strictly(text, (folder_ / name).string());
  };
  index_ = parse_index(parse(index, "index.json"), (folder_ / "index.json").string());
  state_ = parse(state, "state.json");
  plan_ = parse(plan, "plan.json");
  for (const auto& [name, stored] : index_.files) {
    const std::unique_ptr<InputFile> file = files_.open(folder_ / name);
    if (file->size() != stored.bytes)
      throw bad_data("'" + file->path().string() + "' is damaged",
                     "it has " + std::to_string(file->size()) + " bytes, and was written with " +
                         std::to_string(stored.bytes),
                     kDamaged);
    check_header(*file, stored);
  }
}

void Checkpoint::check_header(const InputFile& file, const IndexFile& stored) {
  std::vector<std::byte> header(stored.header_bytes);
  file.read_at(0, header);
  const std::string damaged = "'" + file.path().string() + "' is damaged";
  if (crc32c(header) != stored.header_checksum)
    throw bad_data(damaged,
                   "its header has the checksum " + checksum_text(crc32c(header)) +
                       ", and was written with " + checksum_text(stored.header_checksum),
                   kDamaged);
  uint64_t length = 0;
  if (header.size() >= sizeof length) std::memcpy(&length, header.data(), sizeof length);
  if (header.size() < sizeof length || length != header.size() - sizeof length)
    throw bad_data(damaged,
                   "its header has " + std::to_string(length) + " bytes after its length, and " +
                       std::to_string(stored.header_bytes) + " with it in the index",
                   kDamaged);
}

void Checkpoint::check_documents(const std::string& index, const std::string& state,
                                 const std::string& plan) const {
  const std::string stored = read_whole(files_, folder_ / "checksums.txt"),
                    found = checksums_of(index, state, plan);
  if (stored == found) return;
  const std::vector<std::string> lines = split_text(stored, '\n'),
                                 expected = split_text(found, '\n');
  const std::string path = (folder_ / "checksums.txt").string();
  if (lines.front() != expected.front() && lines.front().starts_with(kChecksumsHead))
    throw bad_data(
        "'" + path + "' is of format version " + lines.front().substr(std::strlen(kChecksumsHead)),
        "this program reads version " + std::to_string(kCheckpointFormat), kDamaged);
  for (const std::string& line : expected) {
    if (std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
    const std::string name = line.substr(line.rfind(' ') + 1);
    if (name.find(".json") == std::string::npos) break;
    throw bad_data("'" + (folder_ / name).string() + "' is damaged",
                   "checksums.txt has no line '" + line + "', which is what the file has now",
                   kDamaged);
  }
  throw bad_data("'" + path + "' is damaged", "it is not the text that was written", kDamaged);
}

std::shared_ptr<const InputFile> Checkpoint::shard(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  if (const auto found = open_shards_.find(name); found != open_shards_.end()) return found->second;
  if (open_shards_.size() >= kMaxOpenShards) open_shards_.erase(open_shards_.begin());
  return open_shards_[name] = files_.open(folder_ / name);
}

const IndexTensor& Checkpoint::tensor(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  if (found != index_.tensors.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [other, stored] : index_.tensors) names.push_back(other);
  const std::string best = nearest(name, names);
  throw bad_data("the checkpoint '" + folder_.string() + "' has no tensor '" + name + "'",
                 best.empty()
                     ? "none of its " + std::to_string(names.size()) + " tensors has a similar name"
                     : "the nearest is '" + best + "'",
                 "load it with the model and the optimizer that it was stored with");
}

void Checkpoint::require(const std::map<std::string, TensorType>& wanted) const {
  std::vector<std::string> differences;
  for (const auto& [name, type] : wanted) {
    const auto stored = index_.tensors.find(name);
    if (stored == index_.tensors.end())
      differences.push_back("missing '" + name + "' " + to_text(type));
    else if (stored->second.whole != type)
      differences.push_back("'" + name + "' is " + to_text(stored->second.whole) + ", wanted " +
                            to_text(type));
  }
  for (const auto& [name, stored] : index_.tensors)
    if (!wanted.contains(name))
      differences.push_back("unexpected '" + name + "' " + to_text(stored.whole));
  if (differences.empty()) return;
  throw bad_data("the checkpoint '" + folder_.string() + "' does not fit the model",
                 join(truncate_list(differences, 5), "; "),
                 "load it with the model and the optimizer that it was stored with");
}

void Checkpoint::load_box(const std::string& name, const Box& box, std::byte* out) const {
  const IndexTensor& stored = tensor(name);
  const Box whole = whole_box(stored.whole.shape);
  ensure(box.ranges.size() == whole.ranges.size() && (box.empty() || intersect(box, whole) == box),
         "the box is inside the tensor " + name);
  with_advice([&] {
    for (const IndexPart& part : stored.parts) load_part(name, stored, part, box, out);
  });
}

void Checkpoint::load_part(const std::string& name, const IndexTensor& stored,
                           const IndexPart& part, const Box& box, std::byte* out) const {
  const Box common = intersect(part.box, box);
  BoxRuns ahead(part.box, box, common, size_of(stored.whole.dtype)), after = ahead;
  const int64_t block = part.checksums.block_bytes;
  std::vector<std::byte> buffer;
  while (!ahead.done()) {
    const Range stretch = next_stretch(ahead, block, bytes_of(part, stored));
    for_each_piece(stretch, block, [&](Range piece) {
      read_blocks(name, part, piece, buffer);
      copy_runs(after, piece, buffer.data(), out);
    });
  }
}

void Checkpoint::read_blocks(const std::string& name, const IndexPart& part, Range bytes,
                             std::vector<std::byte>& buffer) const {
  const int64_t block = part.checksums.block_bytes;
  buffer.resize(bytes.size());
  shard(part.file)->read_at(part.offset + bytes.begin, buffer);
  bytes_read_ += bytes.size();
  for (int64_t begin = bytes.begin; begin < bytes.end; begin += block) {
    const int64_t size = std::min(block, bytes.end - begin);
    const uint32_t found = crc32c(std::span(buffer).subspan(begin - bytes.begin, size));
    check_block(name, part, {begin, begin + size}, found);
  }
}

void Checkpoint::check_block(const std::string& name, const IndexPart& part, Range bytes,
                             uint32_t found) const {
  const uint32_t written = part.checksums.blocks[bytes.begin / part.checksums.block_bytes];
  if (found != written)
    throw bad_data("'" + (folder_ / part.file).string() + "' is damaged: tensor '" + name + "' " +
                       to_text(part.box),
                   "bytes " + std::to_string(part.offset + bytes.begin) + " to " +
                       std::to_string(part.offset + bytes.end) + " have the checksum " +
                       checksum_text(found) + ", and were written with " + checksum_text(written),
                   kDamaged);
}

void Checkpoint::verify_part(const std::string& name, const IndexTensor& stored,
                             const IndexPart& part) const {
  std::vector<std::byte> buffer;
  for_each_piece({0, bytes_of(part, stored)}, part.checksums.block_bytes,
                 [&](Range piece) { read_blocks(name, part, piece, buffer); });
}

void Checkpoint::refuse(const std::string& what, const std::string& why) const {
  with_advice([&] { throw bad_data("'" + folder_.string() + "' " + what, why, kDamaged); });
}

void Checkpoint::verify() const {
  with_advice([&] {
    for (const auto& [name, stored] : index_.files) read_safetensors_header(*shard(name));
    for (const auto& [name, stored] : index_.tensors)
      for (const IndexPart& part : stored.parts) verify_part(name, stored, part);
  });
}

}  // namespace tessera
