#include "lower/passes/prefetch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lower/program_uses.h"

namespace tessera {
namespace {

class PrefetchScheduler {
 public:
  PrefetchScheduler(Program& program, Bytes window) : program_(program), window_(window) {
    for (const MeshPtr& mesh : program.meshes) {
      auto& with = share_ranks_.emplace_back();
      for (const MeshPtr& other : program.meshes) with.push_back(share_ranks(*mesh, *other));
    }
  }

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

  /// The exchanges of one mesh that are to be placed later, the oldest first.
  struct Waiting {
    std::map<InstructionIndex, Bytes> exchanges;  // with the bytes that they hold
    Bytes bytes{0};
  };

  void sink_exchanges() {
    const ProgramUses uses(program_);
    IndexedVector<MeshIndex, Waiting> waiting(program_.meshes.size());
    std::vector<InstructionIndex> order;
    const auto place = [&](Waiting& list, InstructionIndex exchange) {
      order.push_back(exchange);
      list.bytes = list.bytes - list.exchanges.at(exchange);
      list.exchanges.erase(exchange);
    };
    for (InstructionIndex i : program_.instructions.indices()) {
      const Instruction& instruction = at(i);
      std::set<std::pair<MeshIndex, InstructionIndex>> due;
      for (RegisterIndex read : instruction.reads())
        if (const InstructionIndex writer = uses.writer(read); !writer.is_none())
          if (waiting[at(writer).mesh].exchanges.contains(writer))
            due.emplace(at(writer).mesh, writer);
      for (const auto& [mesh, exchange] : due) place(waiting[mesh], exchange);
      if (!may_wait(i, uses)) {
        order.push_back(i);
        continue;
      }
      Waiting& list = waiting[instruction.mesh];
      const ExchangeStep& exchange = *instruction.exchange();
      const Bytes bytes = reg(exchange.source).size + reg(exchange.target).size;
      list.exchanges.emplace(i, bytes);
      list.bytes += bytes;
      while (list.bytes > window_) place(list, list.exchanges.begin()->first);
    }
    reorder(program_, order);
  }

  bool may_wait(InstructionIndex i, const ProgramUses& uses) const {
    return is_transfer(at(i)) &&
           reg(at(i).exchange()->source).storage == Register::Storage::kArena &&
           uses.first_reader(at(i).exchange()->target) > i + 1;
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
      if (at(i).kernel() && share_ranks_[at(i).mesh][mesh]) return true;
    return false;
  }

  Program& program_;
  const Bytes window_;
  IndexedVector<MeshIndex, IndexedVector<MeshIndex, bool>> share_ranks_;  // by pair of meshes
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
