#include "lower/passes/prefetch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text.h"
#include "lower/live_bytes.h"
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
    return exchange && exchange->kind() != ReshardKind::kSlice && are_in_arena(exchange->targets);
  }

  bool are_in_arena(std::span<const RegisterIndex> list) const {
    return std::all_of(list.begin(), list.end(), [this](RegisterIndex index) {
      return reg(index).storage == Register::Storage::kArena;
    });
  }

  Bytes size_of_all(std::span<const RegisterIndex> list) const {
    Bytes sum{0};
    for (RegisterIndex index : list) sum += reg(index).size;
    return sum;
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
      const Bytes bytes = size_of_all(exchange.sources) + size_of_all(exchange.targets);
      list.exchanges.emplace(i, bytes);
      list.bytes += bytes;
      while (list.bytes > window_) place(list, list.exchanges.begin()->first);
    }
    reorder(program_, order);
  }

  bool may_wait(InstructionIndex i, const ProgramUses& uses) const {
    if (!is_transfer(at(i)) || !are_in_arena(at(i).exchange()->sources)) return false;
    const std::span<const RegisterIndex> targets = at(i).exchange()->targets;
    return std::all_of(targets.begin(), targets.end(),
                       [&](RegisterIndex target) { return uses.first_reader(target) > i + 1; });
  }

  // ---- issue points: as early as memory allows ----

  /// The results that are in flight on a mesh while an instruction runs.
  struct InFlight {
    int count = 0;
    Bytes bytes{0};
  };

  void set_issue_points() {
    const ProgramUses uses(program_);
    IndexedVector<MeshIndex, LiveBytes> live;
    for (MeshIndex mesh : program_.meshes.indices()) live.push_back({program_, uses, mesh});
    IndexedVector<MeshIndex, IndexedVector<InstructionIndex, InFlight>> in_flight(
        program_.meshes.size(),
        IndexedVector<InstructionIndex, InFlight>(program_.instructions.size()));
    for (InstructionIndex i : program_.instructions.indices()) {
      if (!is_transfer(at(i))) continue;
      ExchangeStep& exchange = *program_.instructions[i].exchange();
      auto& on_mesh = in_flight[at(i).mesh];
      LiveBytes& alive = live[at(i).mesh];
      const Bytes bytes = size_of_all(exchange.targets);
      const int parts = static_cast<int>(exchange.parts.size());
      const auto has_room = [&](InstructionIndex k) {
        return has_capacity(on_mesh[k], bytes) &&
               (parts == 1 || alive.most(k, k + 1) + bytes.value() <= alive.least_peak());
      };
      InstructionIndex earliest(0);
      for (RegisterIndex source : exchange.sources)
        earliest = std::max(earliest, uses.writer(source));
      InstructionIndex point = i - 1;
      while (point > earliest && has_room(point)) --point;
      if (!computes_between(point + 1, i, at(i).mesh)) continue;
      for (InstructionIndex k = point + 1; k < i; ++k) {
        on_mesh[k].count += parts;
        on_mesh[k].bytes += bytes;
      }
      alive.add(point + 1, i, bytes);
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

std::string names_of_targets(const Program& program, const ExchangeStep& exchange) {
  std::vector<std::string> names;
  for (RegisterIndex target : exchange.targets) names.push_back(program.registers[target].name);
  return join(names, ", ");
}

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
    text += names_of_targets(program, *exchange) + " may be issued " + std::to_string(kernels) +
            (kernels == 1 ? " kernel" : " kernels") + " early\n";
  }
  return text.empty() ? "every exchange is issued at its turn\n" : text;
}

}  // namespace tessera
