// Checkpoints: the state that a run needs to resume. Any plan loads the checkpoint of any other
// plan, and no failure loses a complete checkpoint.
//
// This module knows files, boxes and parts, but no mesh and no graph: each rank gives the boxes of
// the tensors that it stores, and of those that it loads. It starts no threads.
//
//   step-00001000/    written as step-00001000.tmp/, synced, then renamed
//     shard-00000-model-00001-of-00001.safetensors ...   one for each rank: the boxes that it owns
//     index.json      tensor -> type and parts: file, offset in the file, box, checksums
//     state.json      step, position in the data, seeds: the state of the caller
//     plan.json       the plan of the run
//     checksums.txt   checksum, size and name of these three
//   latest            the name of the newest checkpoint, moved last
//   latest_good       the name of the newest one whose run was sound, moved last
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <semaphore>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "training/checkpoint/index.h"
#include "training/checkpoint/internal/file_system.h"

namespace tessera {

/// A box of a tensor that a rank stores, dense and row-major at `data`. It may be empty.
struct StoredPart {
  std::string tensor;
  Box box;
  DType dtype = DType::kF32;
  TensorType whole;
  const std::byte* data = nullptr;
};

/// What a new checkpoint means for the others of its folder.
struct Retention {
  // NOLINTNEXTLINE(google-explicit-constructor): a number alone is that of a sound run
  Retention(int count, bool good = true, std::optional<int64_t> proven_step = std::nullopt)
      : keep_last(count), is_good(good), proven(proven_step) {}

  int keep_last;  // complete checkpoints that are kept, including the new one; 0: all
  /// Is its run sound, as far as its losses tell? `latest_good` then names it. Otherwise it names
  /// `proven`, or stays as it is.
  bool is_good;
  /// The step of an earlier checkpoint after which the run was sound. It is kept, as is the one
  /// that `latest_good` names: the new one may hold what a step has just spoiled.
  std::optional<int64_t> proven;
};

/// One stored checkpoint, open for reading. The file system outlives it.
///
///   threads  any number at the same time
///   throws   UserError (65) that names the damaged file and the newest earlier checkpoint without
///            any damage
class Checkpoint {
 public:
  /// Do errors name an earlier checkpoint that is good? Finding it reads all of that checkpoint.
  enum class Advice { kGive, kNone };

  /// Checks all but the bytes of the tensors: that every file exists with its size, and that index,
  /// state, plan and the header of every file have their checksums.
  ///   throws  UserError (66) when there is no such folder
  Checkpoint(FileSystem& files, std::filesystem::path folder, Advice advice = Advice::kGive);

  int64_t step() const { return index_.step; }
  const std::filesystem::path& folder() const { return folder_; }
  const Document& state() const { return state_; }
  const Document& plan() const { return plan_; }
  const CheckpointIndex& index() const { return index_; }

  ///   throws  UserError (65) that lists every tensor of `wanted` that is missing or of another
  ///           type, and every stored one that is not wanted
  void require(const std::map<std::string, TensorType>& wanted) const;
  /// Fills `out` with a box of a tensor, dense and row-major, independently of other ranks
  /// (joint_load.h: several ranks together). Of each part that shares elements with the box, it
  /// reads the blocks with these elements, adjacent blocks in one read, and verifies their
  /// checksums.
  ///   requires  `out` has room; the box is inside the tensor
  ///   throws    UserError (65) also when there is no such tensor
  ///   memory    8 MiB, or one block when that is more
  void load_box(const std::string& tensor, const Box& box, std::byte* out) const;
  /// Refuses this checkpoint, for damage that its caller found.
  ///   throws  UserError (65) that names an earlier one
  void refuse(const std::string& what, const std::string& why) const;
  /// Reads and verifies every byte.
  void verify() const;
  /// The bytes of tensors that load_box and verify have read so far.
  Bytes bytes_read() const { return Bytes(bytes_read_.load()); }

 private:
  friend class JointLoad;
  void with_advice(const std::function<void()>& work) const;
  void open();
  static void check_header(const InputFile& file, const IndexFile& stored);
  void check_documents(const std::string& index, const std::string& state,
                       const std::string& plan) const;
  std::shared_ptr<const InputFile> shard(const std::string& name) const;
  const IndexTensor& tensor(const std::string& name) const;
  void load_part(const std::string& tensor, const IndexTensor& stored, const IndexPart& part,
                 const Box& box, std::byte* out) const;
  void read_blocks(const std::string& tensor, const IndexPart& part, Range bytes,
                   std::vector<std::byte>& buffer) const;
  void check_block(const std::string& tensor, const IndexPart& part, Range bytes,
                   uint32_t found) const;
  void verify_part(const std::string& tensor, const IndexTensor& stored,
                   const IndexPart& part) const;

  FileSystem& files_;
  std::filesystem::path folder_;
  Advice advice_;
  CheckpointIndex index_;
  Document state_, plan_;
  mutable std::mutex mutex_;  // guards open_shards_
  mutable std::map<std::string, std::shared_ptr<const InputFile>> open_shards_;
  mutable std::atomic<int64_t> bytes_read_{0};
};

/// The folder in which a run keeps its checkpoints. One run writes into it at a time. The file
/// system outlives it.
class CheckpointFolder {
 public:
  CheckpointFolder(FileSystem& files, std::filesystem::path folder);

  // These functions store a checkpoint, in this order. A failure or a stop at any point leaves the
  // complete checkpoints complete.

  /// Called by one process before any rank stores. Makes the temporary folder, and removes what
  /// earlier failures left.
  void begin(int64_t step);
  /// Called by every rank, possibly at the same time. Writes and syncs the file of the rank, and
  /// reads it back.
  ///   requires  0 <= rank < ranks; boxes are inside their tensors; data does not change during the
  ///             call
  ///   throws    UserError (5) when a value is not finite: the checkpoint is then never committed
  void store(int64_t step, Rank rank, int ranks, const std::vector<StoredPart>& parts);
  /// Called by one process after every rank has stored. Writes the index and opens the temporary
  /// folder as a reader would, makes it visible atomically, moves `latest` (and `latest_good`), and
  /// then removes all checkpoints older than the newest `keep_last` complete ones up to this step
  /// (0 keeps all), except the two of Retention.
  ///   throws  UserError (65) when the file of a rank is missing, two ranks stored the same
  ///           element, or no rank stored it
  void commit(int64_t step, int ranks, const Document& state, const Document& plan,
              const Retention& retention);

  // These functions find a checkpoint. A step is complete when its checkpoint opens.

  /// The steps of all checkpoints that are in place, including damaged ones, in ascending order.
  std::vector<int64_t> steps() const;
  std::filesystem::path path_of(int64_t step) const;
  /// The damage of the checkpoint; "" when it is complete. The bytes of tensors are read only when
  /// `every_byte`.
  std::string damage(int64_t step, bool every_byte) const;
  /// The step that `latest` names if it is complete; else the newest complete one before it; else
  /// the newest complete one of all.
  std::optional<int64_t> latest() const;
  /// The step that `latest_good` names if it is complete and before latest(); else latest(). A
  /// folder without `latest_good` was written by an earlier version.
  std::optional<int64_t> latest_good() const;
  /// The newest step before `step` whose checkpoint has no damage.
  std::optional<int64_t> good_before(int64_t step) const;

 private:
  std::filesystem::path aside(int64_t step) const;
  CheckpointIndex collect(int64_t step, int ranks) const;
  std::optional<int64_t> step_named_by(const char* name) const;
  void check_aside(int64_t step) const;
  void put_in_place(int64_t step);
  void move(const char* name, int64_t step);
  void remove_older(int64_t step, const Retention& retention);
  /// Whether the folder of a step has a file that a checkpoint has: anything may have such a name.
  bool is_ours(int64_t step) const;

  /// The files that ranks write at the same time: a process may have hundreds of ranks, and often
  /// not more than 1,024 open files.
  static constexpr int kMaxWriters = 16;

  FileSystem& files_;
  std::filesystem::path folder_;
  std::counting_semaphore<> turns_{kMaxWriters};
};

/// "step-00001000".
std::string checkpoint_name(int64_t step);
/// The step of such a name, also with one of the endings of folders that are being written or
/// removed; nullopt for other names.
std::optional<int64_t> step_of_name(std::string_view name);
/// "shard-00003-model-00001-of-00001.safetensors", the name of such a file in PyTorch's distributed
/// checkpoints.
std::string rank_file_name(Rank rank);
/// The text of checksums.txt: a line with the format version, then checksum, size and name of each
/// of the three documents.
std::string checksums_of(const std::string& index, const std::string& state,
                         const std::string& plan);

/// A summary of a safetensors file, of a checkpoint, or of a folder of checkpoints, for readers and
/// scripts.
///
///   throws  UserError: 66 when it is missing, 65 when it is none of these or is damaged
Document inspect_stored(FileSystem& files, const std::filesystem::path& path);

}  // namespace tessera
