// Stores and finds checkpoints. The order of the writes makes a stop at any of them harmless, which
// the tests with simulated_disk.h show.
#include <algorithm>

#include "base/finite.h"
#include "base/log.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/crc32c.h"
#include "training/checkpoint/json_fields.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

constexpr const char* kAside = ".tmp";  // being written
// Good, and about to give way to a new one of the same step.
constexpr const char* kReplaced = ".replaced";
constexpr const char* kRemoving = ".removing";  // no longer whole

/// A turn to have a file open.
class Turn {
 public:
  explicit Turn(std::counting_semaphore<>& turns) : turns_(turns) { turns_.acquire(); }
  ~Turn() { turns_.release(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  std::counting_semaphore<>& turns_;
};

/// The name of a part in the rank's file: the name of its tensor, with a number when the rank
/// stores several boxes of it.
std::string free_entry(const std::string& tensor,
                       const std::map<std::string, const StoredPart*>& taken) {
  std::string entry = tensor;
  for (int number = 1; taken.contains(entry); ++number)
    entry = tensor + "#" + std::to_string(number);
  return entry;
}

std::span<const std::byte> bytes_of(const StoredPart& part) {
  return {part.data, static_cast<size_t>(element_count(part.box.shape()) * size_of(part.dtype))};
}

void check_part(const StoredPart& part) {
  const Box whole = whole_box(part.whole.shape);
  ensure(part.dtype == part.whole.dtype,
         "a part of '" + part.tensor + "' has the element type of the whole");
  ensure(part.box.ranges.size() == whole.ranges.size(),
         "a part of '" + part.tensor + "' has the dims of the whole");
  if (part.box.empty()) return;
  ensure(intersect(part.box, whole) == part.box,
         "a part of '" + part.tensor + "' is inside the whole");
  ensure(part.data != nullptr, "a part of '" + part.tensor + "' has data");
}

void check_is_finite(const StoredPart& part, int64_t step) {
  if (all_finite(part.dtype, bytes_of(part))) return;
  throw UserError("the checkpoint of step " + std::to_string(step) + " is not stored: '" +
                      part.tensor + "' has values that are not finite",
                  "training diverged, and earlier checkpoints are kept",
                  "go on from an earlier checkpoint with a lower optimizer.learning_rate, a longer "
                  "optimizer.warmup, or optimizer.clip_norm",
                  ExitCode::kDiverged);
}

/// Removes files that are no longer needed. Some disks refuse that for a while, which is no reason
/// to stop a run.
void remove_leftover(FileSystem& files, const fs::path& path) {
  try {
    files.remove(path);
  } catch (const UserError& error) {
    log_warning("an old checkpoint is left behind: " + error.what_happened() + ": " + error.why());
  }
}

/// Reads back what was just written, before anything relies on it.
void check_stored(FileSystem& files, const fs::path& path, const RankFile& rank_file) {
  const SafetensorsFile stored(files, path);
  for (const RankFile::Part& part : rank_file.parts) {
    const FileTensor& tensor = stored.tensor(part.entry);
    std::vector<std::byte> block;
    for (size_t i = 0; i < part.checksums.blocks.size(); ++i) {
      const int64_t begin = i * part.checksums.block_bytes;
      block.resize(std::min(part.checksums.block_bytes, tensor.bytes() - begin));
      stored.read(tensor, begin, block);
      if (crc32c(block) != part.checksums.blocks[i])
        throw UserError("'" + path.string() + "' did not come back as it was written",
                        "tensor '" + part.tensor + "' has another checksum",
                        "check the disk, or store on another one");
    }
  }
}

}  // namespace

CheckpointFolder::CheckpointFolder(FileSystem& files, fs::path folder)
    : files_(files), folder_(std::move(folder)) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // "checkpoints/"
}

fs::path CheckpointFolder::aside(int64_t step) const {
  return folder_ / (checkpoint_name(step) + kAside);
}

void CheckpointFolder::begin(int64_t step) {
  files_.make_folder(folder_);
  files_.sync_folder(folder_of(folder_));
  for (const std::string& name : files_.list(folder_)) {
    if (!step_of_name(name)) continue;
    const std::string whole_name = checkpoint_name(*step_of_name(name));
    if (name.ends_with(kReplaced) && !files_.is_folder(folder_ / whole_name))
      files_.rename(folder_ / name, folder_ / whole_name);  // its successor was never completed
    else if (name != whole_name && folder_ / name != aside(step))
      remove_leftover(files_, folder_ / name);
  }
  files_.remove(aside(step));
  files_.make_folder(aside(step));
}

void CheckpointFolder::store(int64_t step, Rank rank, int ranks,
                             const std::vector<StoredPart>& parts) {
  ensure(0 <= rank && rank < ranks, "the rank is one of the ranks");
  RankFile rank_file{step, rank, ranks, {}, {}};
  std::map<std::string, const StoredPart*> entries;
  for (const StoredPart& part : parts) {
    check_part(part);
    const auto [known, is_new] = rank_file.tensors.emplace(part.tensor, part.whole);
    ensure(known->second == part.whole, "all parts of '" + part.tensor + "' are of one type");
    if (part.box.empty()) continue;
    check_is_finite(part, step);
    const std::string entry = free_entry(part.tensor, entries);
    entries.emplace(entry, &part);
    rank_file.parts.push_back({part.tensor, entry, part.box, block_checksums(bytes_of(part))});
  }
  std::vector<TensorToWrite> tensors;
  for (const auto& [entry, part] : entries)
    tensors.push_back({entry, to_file_dtype(part->dtype), part->box.shape(), part->data});
  const fs::path path = aside(step) / rank_file_name(rank);
  const Turn turn(turns_);
  {
    const std::unique_ptr<OutputFile> file = files_.create(path);
    write_safetensors(*file, std::move(tensors), to_metadata(rank_file));
    file->sync();
  }
  check_stored(files_, path, rank_file);
}

namespace {

/// Adds the parts of one rank's file.
void add_rank_file(CheckpointIndex& index, const std::string& name, const InputFile& file,
                   const RankFile& rank_file, const SafetensorsHeader& header) {
  std::vector<std::byte> bytes(header.data_begin);
  file.read_at(0, bytes);
  index.files[name] = {file.size(), header.data_begin, crc32c(bytes)};
  for (const auto& [tensor, whole] : rank_file.tensors) {
    const auto [known, is_new] = index.tensors.emplace(tensor, IndexTensor{whole, {}});
    if (known->second.whole != whole)
      throw bad_data(
          "'" + file.path().string() + "': tensor '" + tensor + "' is a part of " + to_text(whole),
          "other ranks stored parts of " + to_text(known->second.whole),
          "let all ranks run the same program");
  }
  for (const RankFile::Part& part : rank_file.parts)
    index.tensors.at(part.tensor)
        .parts.push_back({name, part.entry, header.data_begin + header.find(part.entry)->begin,
                          part.box, part.checksums});
}

}  // namespace

CheckpointIndex CheckpointFolder::collect(int64_t step, int ranks) const {
  CheckpointIndex index{step, ranks, {}, {}};
  const std::vector<std::string> names = files_.list(aside(step));
  for (Rank rank = 0; rank < ranks; ++rank) {
    const std::string name = rank_file_name(rank);
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw bad_data("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                         " stored nothing for " + checkpoint_name(step),
                     "there is no '" + (aside(step) / name).string() + "'",
                     "let the folder lie on a file system that all ranks share");
    const std::unique_ptr<InputFile> file = files_.open(aside(step) / name);
    const SafetensorsHeader header = read_safetensors_header(*file);
    const RankFile rank_file = parse_rank_file(header, file->path().string());
    if (rank_file.step != step || rank_file.rank != rank || rank_file.ranks != ranks)
      throw bad_data("'" + file->path().string() + "' was stored by rank " +
                         std::to_string(rank_file.rank) + " of " + std::to_string(rank_file.ranks) +
                         " at step " + std::to_string(rank_file.step),
                     "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " at step " +
                         std::to_string(step) + " was expected",
                     "let one run at a time write into the folder");
    add_rank_file(index, name, *file, rank_file, header);
  }
  for (const auto& [tensor, stored] : index.tensors)
    check_parts_tile(tensor, stored, aside(step).string());
  return index;
}

void CheckpointFolder::commit(int64_t step, int ranks, const Document& state, const Document& plan,
                              const Retention& retention) {
  const std::string index_text = to_json(to_document(collect(step, ranks))) + "\n";
  const std::string state_text = to_json(state, 2) + "\n", plan_text = to_json(plan, 2) + "\n";
  write_synced(files_, aside(step) / "index.json", index_text);
  write_synced(files_, aside(step) / "state.json", state_text);
  write_synced(files_, aside(step) / "plan.json", plan_text);
  write_synced(files_, aside(step) / "checksums.txt",
               checksums_of(index_text, state_text, plan_text));
  files_.sync_folder(aside(step));
  check_aside(step);
  put_in_place(step);
  // In this order: `latest_good` is before `latest` only when the run was not sound.
  if (retention.is_good)
    move("latest_good", step);
  else if (retention.proven)
    move("latest_good", *retention.proven);
  move("latest", step);
  remove_older(step, retention);
}

void CheckpointFolder::check_aside(int64_t step) const try {
  Checkpoint(files_, aside(step), Checkpoint::Advice::kNone);
} catch (const UserError& error) {
  throw UserError(error.what_happened(), error.why(),
                  "it was written just now: check the disk, or store on another one");
}

void CheckpointFolder::put_in_place(int64_t step) {
  const fs::path place = folder_ / checkpoint_name(step), replaced = place.string() + kReplaced;
  const bool replaces = files_.is_folder(place);
  if (replaces) files_.rename(place, replaced);
  files_.rename(aside(step), place);
  files_.sync_folder(folder_);
  if (replaces) remove_leftover(files_, replaced);
}

void CheckpointFolder::move(const char* name, int64_t step) {
  const fs::path aside_of_name = folder_ / (std::string(name) + kAside);
  write_synced(files_, aside_of_name, checkpoint_name(step) + "\n");
  files_.rename(aside_of_name, folder_ / name);
  files_.sync_folder(folder_);
}

void CheckpointFolder::remove_older(int64_t step, const Retention& retention) {
  ensure(retention.keep_last >= 0, "a number of checkpoints to keep");
  std::vector<int64_t> older = steps();
  // A later one is of a run that was given up: its user removes it.
  std::erase_if(older, [&](int64_t other) { return other > step || !is_ours(other); });
  std::vector<int64_t> complete;
  for (int64_t other : older)
    if (damage(other, false).empty()) complete.push_back(other);
  const size_t keep = retention.keep_last;
  if (keep == 0 || complete.size() <= keep) return;
  const int64_t oldest_kept = complete[complete.size() - keep];
  const std::optional<int64_t> good = step_named_by("latest_good");
  for (int64_t other : older) {
    if (other >= oldest_kept) break;
    if (other == good || other == retention.proven) continue;
    const fs::path removing = folder_ / (checkpoint_name(other) + kRemoving);
    files_.rename(path_of(other), removing);  // so that a stop never leaves half of it in place
    files_.sync_folder(folder_);
    remove_leftover(files_, removing);
  }
}

bool CheckpointFolder::is_ours(int64_t step) const {
  return std::ranges::any_of(files_.list(path_of(step)), [](const std::string& name) {
    return name == "index.json" || name == "state.json" || name == "plan.json" ||
           name == "checksums.txt" || name.starts_with("shard-");
  });
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> found;
  for (const std::string& name : files_.list(folder_)) {
    const std::optional<int64_t> step = step_of_name(name);
    if (step && (name == checkpoint_name(*step) || name == checkpoint_name(*step) + kReplaced))
      found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

fs::path CheckpointFolder::path_of(int64_t step) const {
  const fs::path place = folder_ / checkpoint_name(step), replaced = place.string() + kReplaced;
  return !files_.is_folder(place) && files_.is_folder(replaced) ? replaced : place;
}

std::string CheckpointFolder::damage(int64_t step, bool every_byte) const try {
  const Checkpoint checkpoint(files_, path_of(step), Checkpoint::Advice::kNone);
  if (every_byte) checkpoint.verify();
  return "";
} catch (const UserError& error) {
  return error.what_happened() + ": " + error.why();
}

std::optional<int64_t> CheckpointFolder::step_named_by(const char* file) const try {
  std::string name = read_whole(files_, folder_ / file);
  if (name.ends_with('\n')) name.pop_back();
  const std::optional<int64_t> step = step_of_name(name);
  return step && name == checkpoint_name(*step) ? step : std::nullopt;
} catch (const UserError&) {  // not there: the newest complete one is used
  return std::nullopt;
}

std::optional<int64_t> CheckpointFolder::latest() const {
  std::vector<int64_t> order = steps();
  std::reverse(order.begin(), order.end());
  if (const std::optional<int64_t> named = step_named_by("latest"))
    std::stable_partition(order.begin(), order.end(), [&](int64_t step) { return step <= *named; });
  for (int64_t step : order)
    if (damage(step, false).empty()) return step;
  return std::nullopt;
}

std::optional<int64_t> CheckpointFolder::latest_good() const {
  const std::optional<int64_t> newest = latest(), good = step_named_by("latest_good");
  return good && newest && *good < *newest && damage(*good, false).empty() ? good : newest;
}

std::optional<int64_t> CheckpointFolder::good_before(int64_t step) const {
  std::vector<int64_t> order = steps();
  std::reverse(order.begin(), order.end());
  for (int64_t other : order)
    if (other < step && damage(other, true).empty()) return other;
  return std::nullopt;
}

}  // namespace tessera
