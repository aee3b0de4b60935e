// The values of every register on every rank, assembled to whole tensors for the comparison with
// the serial run.
#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/ops/operator.h"
#include "runtime/runtime/runtime.h"

namespace tessera {

class Capture {
 public:
  /// `graph` outlives it.
  explicit Capture(const TaskGraph& graph);

  /// An observer for Runtime::run; each rank of this process writes its own part of the selected
  /// registers.
  Observer observer();
  /// From now on only these registers are captured. Forgets all, and frees the memory of others.
  /// All registers are selected at first.
  void select(std::span<const RegisterIndex> registers);
  /// What the ranks of this process filled of some registers, for another process.
  std::vector<std::byte> parts_of(std::span<const RegisterIndex> registers) const;
  /// Adds the parts that another process gave by parts_of().
  void add(std::span<const std::byte> parts);
  /// Forgets the parts of some registers that other processes gave, and frees their memory. The
  /// processes still have them.
  void release_given(std::span<const RegisterIndex> registers);
  void clear();

  struct Whole {
    ReferenceTensor tensor;  // partial values are reduced
    /// By element: does a rank hold it? Windows may leave some out. Empty when all are held.
    std::vector<bool> held;
    struct Copy {
      size_t at = 0;
      double value = 0;
    };
    /// Elements that windows give to a further rank, which computes them again. Their rounding may
    /// differ.
    std::vector<Copy> copies;
    /// The largest sum of absolute partial values of an element; 0 when none is partial.
    double magnitude = 0;
    /// Two replicas that differ.
    struct ReplicaMismatch {
      Rank first = 0, second = 0;
      int64_t local_element = 0;  // the first element in which they differ
      size_t at = 0;              // the same element in the whole tensor
    };
    std::optional<ReplicaMismatch> mismatch;
    std::string missing;  // names a rank that never filled it
  };
  Whole assemble(RegisterIndex number) const;

 private:
  struct Part {
    Coordinate coordinate;
    std::vector<std::vector<int64_t>> indices;  // by dim, in the whole tensor
    int64_t replica_set = 0;  // index over the axes that divide or are partial; equal for replicas
    int64_t partial = 0;      // index over the axes that are partial
  };
  static Part part_of(const Register& reg, int position);
  static Whole::ReplicaMismatch find_mismatch(const Register& reg, const Part& part, Rank first,
                                              Rank second, int64_t byte);

  /// Puts the only holder of its elements into the whole tensor.
  static void place(const TensorType& local, std::span<const std::byte> bytes, const Part& part,
                    ReferenceTensor& whole);

  size_t index_of(Rank rank) const;
  /// Keeps what a rank filled. A replica that has the bits of the first one is not kept.
  void keep(size_t rank, RegisterIndex reg, const Coordinate& coordinate,
            std::span<const std::byte> bytes);
  const std::vector<std::byte>& bytes_of(size_t rank, RegisterIndex reg) const {
    return parts_[equal_to_[rank][reg]][reg];
  }

  const TaskGraph& graph_;
  std::vector<Rank> ranks_;
  std::vector<IndexedVector<RegisterIndex, std::vector<std::byte>>> parts_;  // by rank
  std::vector<IndexedVector<RegisterIndex, bool>> filled_;                   // by rank
  std::vector<IndexedVector<RegisterIndex, size_t>> equal_to_;  // by rank: whose part it has
  /// By register: which rank filled its part first, by replica set.
  IndexedVector<RegisterIndex, std::vector<std::pair<int64_t, size_t>>> first_of_replicas_;
  std::array<std::mutex, 64> mutexes_;  // of first_of_replicas_, by register
  IndexedVector<RegisterIndex, bool> is_selected_;
  std::vector<bool> is_given_;  // by rank: do its parts come from another process?
};

/// "ranks 0 and 2 differ in local element 3"
std::string to_text(const Capture::Whole::ReplicaMismatch& mismatch);

/// Registers in the order in which they are filled.
std::vector<RegisterIndex> in_program_order(const TaskGraph& tasks);

/// Divides registers, in their order, into groups whose parts on all ranks have at most `limit`
/// bytes together, or are one register.
std::vector<std::span<const RegisterIndex>> in_groups(std::span<const RegisterIndex> registers,
                                                      const TaskGraph& graph, Bytes limit);

/// Does it hold a partial value over the micro-batches? Then only their sum can be compared.
bool is_partial_of_micro_batches(const Register& reg);

/// Does it hold a partial value, over ranks or micro-batches, of a float that the sum of all
/// rounds? A maximum selects among parts and rounds nothing.
bool is_rounded_partial(const Register& reg);

/// What rounding may do to the sum of the partial values of such a register. Each is rounded by its
/// own magnitude, and the sum of n of them n times, while the sum itself may be small. 0 when a
/// value is not finite.
double rounding_of_partials(const Register& reg, const Capture::Whole& whole);

/// The name of the serial value of which a register holds a partial value: value_name(), also of a
/// sum over the first micro-batches, which is called "y.sum".
std::string name_of_partial(const Graph& graph, const Register& reg);

/// Does it hold the rows of a micro-batch, or a chunk, of the tensor of its name?
bool is_part(const Register& reg);

/// By element of a register: its position in the whole tensor, of the given shape.
std::vector<size_t> positions_of(const Register& reg, const Shape& whole);

/// The part of a whole tensor that a register holds: the rows of its micro-batch, or a chunk of
/// them.
ReferenceTensor rows_of(const ReferenceTensor& whole, const Register& reg);

/// The name of the serial value that a register holds. The name of a copy continues with a space
/// and the kind of copy.
///   throws  InternalError when the graph has no such value
std::string value_name(const Graph& graph, const Register& reg);

}  // namespace tessera
