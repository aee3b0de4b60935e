// Checkpoints: the state that a run needs to resume. Any plan loads what any other plan stored, and
// no failure loses a complete checkpoint.
//
// This module knows files, boxes and parts, but no mesh and no graph: each rank gives the boxes of
// the tensors that it stores, and of those that it loads. It starts no threads.
//
//   step-00001000/    written as step-00001000.tmp/, synced, then renamed
//     shard-00000-model-00001-of-00001.safetensors ...   one for each rank: the boxes that it owns
//     index.json      tensor -> type and parts: file, offset in the file, box, checksums
//     state.json      step, position in the data, seeds: what the caller needs
//     plan.json       the plan of the run
//     checksums.txt   checksum, size and name of the three
//   latest            the name of the newest checkpoint, moved last
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "checkpoint/file_system.h"
#include "checkpoint/index.h"

namespace tessera {

/// A box of a tensor that a rank stores, dense and row-major at `data`. It may be empty.
struct StoredPart {
  std::string tensor;
  Box box;
  DType dtype = DType::kF32;
  TensorType whole;
  const std::byte* data = nullptr;
};

/// One stored checkpoint, open for reading. The file system outlives it.
///
///   threads  any number at once
///   throws   UserError (65) that names the damaged file and the newest earlier checkpoint whose
///   every byte is good
class Checkpoint {
 public:
  /// Whether errors look for an earlier checkpoint that is good, which reads all of it.
  enum class Advice { kGive, kNone };

  /// Checks all but the bytes of the tensors: that every file is there with its size, and that
  /// index, state and plan are as written.
  ///   throws  UserError (66) when there is no such folder
  Checkpoint(FileSystem& files, std::filesystem::path folder, Advice advice = Advice::kGive);

  int64_t step() const { return index_.step; }
  const std::filesystem::path& folder() const { return folder_; }
  const Document& state() const { return state_; }
  const Document& plan() const { return plan_; }
  const CheckpointIndex& index() const { return index_; }

  /// throws  UserError (65) that lists every tensor of `wanted` that is missing or of another type,
  /// and every stored one that is not wanted
  void require(const std::map<std::string, TensorType>& wanted) const;
  /// Fills `out` with a box of a tensor, dense and row-major, by itself (joint_load.h: several
  /// ranks together). Reads, of each part that shares elements with the box, the blocks that hold
  /// them, neighbours in one read, and verifies their checksums.
  ///   requires  `out` has room; the box lies in the tensor
  ///   throws    UserError (65) also when there is no such tensor
  ///   memory    8 MiB, or one block when that is more
  void load_box(const std::string& tensor, const Box& box, std::byte* out) const;
  /// Reads and verifies every byte.
  void verify() const;
  /// Bytes of tensors read so far by load_box and verify.
  Bytes bytes_read() const { return Bytes(bytes_read_.load()); }

 private:
  friend class JointLoad;
  void with_advice(const std::function<void()>& work) const;
  void open();
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
  void verify_header(const std::string& name, const IndexFile& stored) const;

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

  // Storing a checkpoint, in this order. Whatever fails or stops on the way, what was complete
  // before stays so.

  /// By one process, before any rank stores: makes the folder aside, and removes what earlier
  /// failures left.
  void begin(int64_t step);
  /// By every rank, at the same time if they like: writes and syncs the rank's own file, and reads
  /// it back.
  ///   requires  0 <= rank < ranks; boxes lie in their tensors; data stays as it is during the call
  void store(int64_t step, Rank rank, int ranks, const std::vector<StoredPart>& parts);
  /// By one process, after every rank has stored: writes the index and opens the whole aside as a
  /// reader would, makes it visible at once, then moves `latest`, then removes what is older than
  /// the newest `keep_last` complete ones up to this step (0 keeps all).
  ///   throws  UserError (65) when a rank's file is missing, two ranks stored the same element, or
  ///   none stored it
  void commit(int64_t step, int ranks, const Document& state, const Document& plan, int keep_last);

  // Finding one. A step is complete when its checkpoint opens.

  /// Steps of all checkpoints that are in place, damaged ones too, ascending.
  std::vector<int64_t> steps() const;
  std::filesystem::path path_of(int64_t step) const;
  /// "" when the checkpoint is complete; else what is wrong with it. The bytes of tensors are read
  /// only when `every_byte`.
  std::string damage(int64_t step, bool every_byte) const;
  /// The step that `latest` names if it is complete; else the newest complete one before it; else
  /// the newest complete one of all.
  std::optional<int64_t> latest() const;
  /// The newest one of a lower step whose every byte is good.
  std::optional<int64_t> good_before(int64_t step) const;

 private:
  std::filesystem::path aside(int64_t step) const;
  CheckpointIndex collect(int64_t step, int ranks) const;
  std::optional<int64_t> step_of_latest() const;
  void check_aside(int64_t step) const;
  void put_in_place(int64_t step);
  void move_latest(int64_t step);
  void remove_older(int64_t step, int keep_last);

  FileSystem& files_;
  std::filesystem::path folder_;
};

/// "step-00001000".
std::string checkpoint_name(int64_t step);
/// The step of such a name, also with one of the endings of folders that are being written or
/// removed; none for other names.
std::optional<int64_t> step_of_name(std::string_view name);
/// "shard-00003-model-00001-of-00001.safetensors", the name that PyTorch's distributed checkpoints
/// give such a file.
std::string rank_file_name(Rank rank);
/// checksums.txt: a line with the format version, then checksum, size and name of each of the three
/// documents.
std::string checksums_of(const std::string& index, const std::string& state,
                         const std::string& plan);

/// A summary of a safetensors file, of a checkpoint, or of a folder of checkpoints, for people and
/// scripts.
///
///   throws  UserError: it is missing (66), or none of these, or damaged (65)
Document inspect_stored(FileSystem& files, const std::filesystem::path& path);

}  // namespace tessera
