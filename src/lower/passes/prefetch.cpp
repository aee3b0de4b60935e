#include "lower/passes/prefetch.h"

#include <algorithm>

#include "lower/program_uses.h"

namespace tessera {
namespace {

class PrefetchScheduler {
 public:
  PrefetchScheduler(Program& program, Bytes window) : program_(program), window_(window) {}

  void run() {
    sink_exchanges();
    set_issue_points();
  }

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }

  /// Does `instruction` receive from other ranks, into a register that is no variable?
  bool is_transfer(const Instruction& instruction) const {
    const ExchangeStep* exchange = instruction.exchange();
    return exchange && exchange->exchange.kind != ReshardKind::kSlice &&
           reg(exchange->target).storage == Register::Storage::kArena;
  }

  // ---- positions: as late as is cheap ----

  struct Waiting {
    InstructionIndex index;
    Bytes bytes{0};
  };

  void sink_exchanges() {
    const ProgramUses uses(program_);
    IndexedVector<MeshIndex, std::vector<Waiting>> waiting(program_.meshes.size());  // oldest first
    std::vector<InstructionIndex> order;
    const auto place = [&](std::vector<Waiting>& list, size_t which) {
      order.push_back(list[which].index);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(which));
    };
    for (InstructionIndex i : program_.instructions.indices()) {
      const Instruction& instruction = at(i);
      const std::span<const RegisterIndex> reads = instruction.reads();
      for (auto& list : waiting)
        for (size_t k = 0; k < list.size();)
          std::find(reads.begin(), reads.end(), at(list[k].index).exchange()->target) != reads.end()
              ? place(list, k)
              : static_cast<void>(++k);
      if (!may_wait(i, uses)) {
        order.push_back(i);
        continue;
      }
      auto& list = waiting[instruction.mesh];
      const ExchangeStep& exchange = *instruction.exchange();
      list.push_back({i, reg(exchange.source).size + reg(exchange.target).size});
      while (bytes_of(list) > window_) place(list, 0);
    }
    reorder(program_, order);
  }

  bool may_wait(InstructionIndex i, const ProgramUses& uses) const {
    return is_transfer(at(i)) &&
           reg(at(i).exchange()->source).storage == Register::Storage::kArena &&
           uses.first_reader(at(i).exchange()->target) > i + 1;
  }

  static Bytes bytes_of(const std::vector<Waiting>& list) {
    Bytes sum{0};
    for (const Waiting& waiting : list) sum += waiting.bytes;
    return sum;
  }

  // ---- issue points: as early as memory allows ----

  /// The exchanges that are in flight on a mesh while an instruction runs.
  struct InFlight {
    int count = 0;
    Bytes bytes{0};
  };

  void set_issue_points() {
    const ProgramUses uses(program_);
    IndexedVector<MeshIndex, IndexedVector<InstructionIndex, InFlight>> in_flight(
        program_.meshes.size(),
        IndexedVector<InstructionIndex, InFlight>(program_.instructions.size()));
    for (InstructionIndex i : program_.instructions.indices()) {
      if (!is_transfer(at(i))) continue;
      ExchangeStep& exchange = *program_.instructions[i].exchange();
      auto& on_mesh = in_flight[at(i).mesh];
      const Bytes bytes = reg(exchange.target).size;
      const InstructionIndex earliest = std::max(uses.writer(exchange.source), InstructionIndex(0));
      InstructionIndex point = i - 1;
      while (point > earliest && has_capacity(on_mesh[point], bytes)) --point;
      if (!computes_between(point + 1, i, at(i).mesh)) continue;
      for (InstructionIndex k = point + 1; k < i; ++k) {
        ++on_mesh[k].count;
        on_mesh[k].bytes += bytes;
      }
      exchange.issue_after = point;
    }
  }

  bool has_capacity(const InFlight& in_flight, Bytes bytes) const {
    return in_flight.count < kMaxPrefetches && in_flight.bytes + bytes <= window_;
  }

  bool computes_between(InstructionIndex begin, InstructionIndex end, MeshIndex mesh) const {
    for (InstructionIndex i : IndexRange(begin, end))
      if (at(i).kernel() && share_ranks(*program_.meshes[at(i).mesh], *program_.meshes[mesh]))
        return true;
    return false;
  }

  Program& program_;
  const Bytes window_;
};

}  // namespace

void schedule_prefetches(Program& program, Bytes window) {
  if (window > Bytes(0)) PrefetchScheduler(program, window).run();
}

std::string prefetch_text(const Program& program) {
  std::string text;
  for (InstructionIndex i : program.instructions.indices()) {
    const Instruction& instruction = program.instructions[i];
    const ExchangeStep* exchange = instruction.exchange();
    if (!exchange || exchange->issue_after.is_none()) continue;
    int kernels = 0;
    for (InstructionIndex k : IndexRange(exchange->issue_after + 1, i))
      kernels +=
          program.instructions[k].mesh == instruction.mesh && program.instructions[k].kernel();
    text += program.registers[exchange->target].name + " may be issued " + std::to_string(kernels) +
            (kernels == 1 ? " kernel" : " kernels") + " early\n";
  }
  return text.empty() ? "every exchange is issued at its turn\n" : text;
}

}  // namespace tessera
