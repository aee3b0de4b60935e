#include "compiler/lower/internal/passes/buckets.h"

#include <algorithm>

#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/program_uses.h"

namespace tessera {
namespace {

/// Where an instance goes: after another one, and at which position of the bucket there.
struct NewPosition {
  Time after;
  int position = 0;  // 0: the instance stays

  auto operator<=>(const NewPosition&) const = default;
};

class Buckets {
 public:
  Buckets(Program& program, Bytes bucket)
      : program_(program),
        bucket_(bucket),
        uses_(program),
        order_(instances(program)),
        times_(program.instructions.size()) {
    for (Time time : order_.indices()) {
      times_[order_[time].instruction] = time;
      positions_.push_back({time, 0});
    }
  }

  void run() {
    std::vector<InstructionIndex> movable;
    for (const InstructionInstance& instance : order_)
      if (may_move(instance.instruction)) movable.push_back(instance.instruction);
    // In the order in which the gradients are computed: the exchanges of one gradient stay
    // together.
    std::stable_sort(movable.begin(), movable.end(), [&](InstructionIndex a, InstructionIndex b) {
      return times_[gradient_of(a)] < times_[gradient_of(b)];
    });
    for (MeshIndex mesh : program_.meshes.indices()) fill_buckets(mesh, movable);
    if (has_moved_) move();
  }

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }
  InstructionIndex writer_of_source(InstructionIndex exchange) const {
    return uses_.writer(at(exchange).exchange()->source());
  }

  bool may_move(InstructionIndex index) const {
    const Instruction& instruction = at(index);
    const ExchangeStep* exchange = instruction.exchange();
    if (!exchange || instruction.role != Role::kOptimizer || instruction.micro_batch >= 0)
      return false;
    const RegisterForm &source = reg(exchange->source()), &target = reg(exchange->target());
    if (source.mesh != target.mesh || target.size > source.size) return false;
    if (target.storage != Register::Storage::kArena || source.storage != Register::Storage::kArena)
      return false;
    const InstructionIndex writer = uses_.writer(exchange->source());
    return !writer.is_none() && (at(writer).role == Role::kBackward || may_move(writer));
  }

  /// The instruction of the backward whose result `exchange`, or the exchanges before it, started
  /// from.
  InstructionIndex gradient_of(InstructionIndex exchange) const {
    const InstructionIndex writer = writer_of_source(exchange);
    return at(writer).exchange() && may_move(writer) ? gradient_of(writer) : writer;
  }

  void fill_buckets(MeshIndex mesh, const std::vector<InstructionIndex>& movable) {
    std::vector<InstructionIndex> open;
    Bytes bytes{0};
    for (InstructionIndex exchange : movable) {
      if (at(exchange).mesh != mesh) continue;
      const bool is_first = writer_of_source(exchange) == gradient_of(exchange);
      if (is_first && bytes >= bucket_) close(open, bytes);
      open.push_back(exchange);
      if (is_first) bytes += reg(at(exchange).exchange()->source()).size;
    }
    if (bytes >= bucket_) close(open, bytes);
  }

  void close(std::vector<InstructionIndex>& open, Bytes& bytes) {
    Time last;
    for (InstructionIndex exchange : open) last = std::max(last, times_[gradient_of(exchange)]);
    int position = 0;
    for (InstructionIndex exchange : open) positions_[times_[exchange]] = {last, ++position};
    has_moved_ = has_moved_ || !open.empty();
    open.clear();
    bytes = Bytes(0);
  }

  void move() {
    std::vector<Time> sorted;
    for (Time time : order_.indices()) sorted.push_back(time);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](Time a, Time b) { return positions_[a] < positions_[b]; });
    program_.order.clear();
    program_.order.reserve(order_.size());
    for (Time time : sorted) program_.order.push_back(order_[time]);
  }

  Program& program_;
  Bytes bucket_;
  const ProgramUses uses_;
  const InstanceOrder order_;
  IndexedVector<InstructionIndex, Time> times_;  // of the last instance
  IndexedVector<Time, NewPosition> positions_;
  bool has_moved_ = false;
};

}  // namespace

void exchange_in_buckets(Program& program, Bytes bucket) {
  Buckets(program, bucket).run();
}

}  // namespace tessera
