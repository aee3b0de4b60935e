#include "compiler/lower/internal/passes/prefetch.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/text/text.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/live_bytes.h"

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
  const Instruction& at(const InstanceUses& uses, Time time) const {
    return at(uses.order()[time].instruction);
  }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }

  /// Does `instruction` receive from other ranks, into a register that is no variable?
  bool is_transfer(const Instruction& instruction) const {
    const ExchangeStep* exchange = instruction.exchange();
    return exchange && exchange->kind() != ReshardKind::kSlice && are_in_arena(exchange->targets);
  }

  bool are_in_arena(std::span<const RegisterFormIndex> list) const {
    return std::all_of(list.begin(), list.end(), [this](RegisterFormIndex index) {
      return reg(index).storage == Register::Storage::kArena;
    });
  }

  Bytes size_of_all(std::span<const RegisterFormIndex> list) const {
    Bytes sum{0};
    for (RegisterFormIndex index : list) sum += reg(index).size;
    return sum;
  }

  // ---- positions: as late as is cheap ----

  /// The exchanges of one mesh that are to be placed later, the oldest first.
  struct Waiting {
    std::map<Time, Bytes> exchanges;  // with the bytes that they hold
    Bytes bytes{0};
  };

  void sink_exchanges() {
    const InstanceUses uses(program_);
    IndexedVector<MeshIndex, Waiting> waiting(program_.meshes.size());
    InstanceOrder order;
    order.reserve(uses.order().size());
    const auto place = [&](Waiting& list, Time exchange) {
      order.push_back(uses.order()[exchange]);
      list.bytes = list.bytes - list.exchanges.at(exchange);
      list.exchanges.erase(exchange);
    };
    for (Time time : uses.order().indices()) {
      const Instruction& instruction = at(uses, time);
      std::set<std::pair<MeshIndex, Time>> due;
      uses.registers().for_each_read(instruction, uses.order()[time].micro_batch,
                                     [&](RegisterIndex read) {
                                       if (const Time writer = uses.writer(read); !writer.is_none())
                                         if (const MeshIndex mesh = at(uses, writer).mesh;
                                             waiting[mesh].exchanges.contains(writer))
                                           due.emplace(mesh, writer);
                                     });
      for (const auto& [mesh, exchange] : due) place(waiting[mesh], exchange);
      if (!may_wait(time, uses)) {
        order.push_back(uses.order()[time]);
        continue;
      }
      Waiting& list = waiting[instruction.mesh];
      const ExchangeStep& exchange = *instruction.exchange();
      const Bytes bytes = size_of_all(exchange.sources) + size_of_all(exchange.targets);
      list.exchanges.emplace(time, bytes);
      list.bytes += bytes;
      while (list.bytes > window_) place(list, list.exchanges.begin()->first);
    }
    program_.order = std::move(order);
  }

  bool may_wait(Time time, const InstanceUses& uses) const {
    const Instruction& instruction = at(uses, time);
    if (!is_transfer(instruction) || !are_in_arena(instruction.exchange()->sources)) return false;
    const std::span<const RegisterFormIndex> targets = instruction.exchange()->targets;
    return std::all_of(targets.begin(), targets.end(), [&](RegisterFormIndex target) {
      const RegisterIndex written =
          uses.registers().written(target, uses.order()[time].micro_batch);
      return uses.first_reader(written) > time + 1;
    });
  }

  // ---- issue points: as early as memory allows ----

  /// The results that are in flight on a mesh while an instance runs.
  struct InFlight {
    int count = 0;
    Bytes bytes{0};
  };

  void set_issue_points() {
    const InstanceUses uses(program_);
    const InstanceOrder& order = uses.order();
    IndexedVector<MeshIndex, LiveBytes> live = live_bytes(program_, uses);
    IndexedVector<MeshIndex, IndexedVector<Time, InFlight>> in_flight(
        program_.meshes.size(), IndexedVector<Time, InFlight>(order.size()));
    for (Time time : order.indices()) {
      const Instruction& instruction = at(uses, time);
      if (!is_transfer(instruction)) continue;
      const ExchangeStep& exchange = *instruction.exchange();
      auto& on_mesh = in_flight[instruction.mesh];
      LiveBytes& alive = live[instruction.mesh];
      const Bytes bytes = size_of_all(exchange.targets);
      const int parts = static_cast<int>(exchange.parts.size());
      const auto has_room = [&](Time t) {
        return has_capacity(on_mesh[t], bytes) &&
               (parts == 1 ||
                alive.largest(alive.moment_at(t), t + 1) + bytes.value() <= alive.min_peak());
      };
      Time earliest(0);
      for (RegisterFormIndex source : exchange.sources)
        earliest =
            std::max(earliest, uses.writer(uses.registers().read(source, order[time].micro_batch)));
      Time point = time - 1;
      while (point > earliest && has_room(point)) --point;
      if (!computes_between(uses, point + 1, time, instruction.mesh)) continue;
      for (Time t = point + 1; t < time; ++t) {
        on_mesh[t].count += parts;
        on_mesh[t].bytes += bytes;
      }
      alive.add(alive.moment_at(point + 1), time, bytes);
      program_.order[time].issue_after = point;
    }
  }

  bool has_capacity(const InFlight& in_flight, Bytes bytes) const {
    return in_flight.count < kMaxPrefetches && in_flight.bytes + bytes <= window_;
  }

  bool computes_between(const InstanceUses& uses, Time begin, Time end, MeshIndex mesh) const {
    for (Time time : IndexRange(begin, end))
      if (const Instruction& between = at(uses, time);
          between.kernel() && share_ranks_[between.mesh][mesh])
        return true;
    return false;
  }

  Program& program_;
  const Bytes window_;
  IndexedVector<MeshIndex, IndexedVector<MeshIndex, bool>> share_ranks_;  // by pair of meshes
};

std::string names_of_targets(const Program& program, const ExchangeStep& exchange,
                             int micro_batch) {
  std::vector<std::string> names;
  for (RegisterFormIndex target : exchange.targets)
    names.push_back(program.registers[target].name.with(std::to_string(micro_batch)));
  return join(names, ", ");
}

}  // namespace

void schedule_prefetches(Program& program, Bytes window) {
  if (window > Bytes(0)) PrefetchScheduler(program, window).run();
}

std::string prefetch_text(const Program& program) {
  std::string text;
  for (Time time : program.order.indices()) {
    const InstructionInstance& instance = program.order[time];
    if (instance.issue_after.is_none()) continue;
    const Instruction& instruction = program.instructions[instance.instruction];
    int kernels = 0;
    for (Time between : IndexRange(instance.issue_after + 1, time)) {
      const Instruction& other = program.instructions[program.order[between].instruction];
      kernels += other.mesh == instruction.mesh && other.kernel();
    }
    text += names_of_targets(program, *instruction.exchange(), instance.micro_batch) +
            " may be issued " + std::to_string(kernels) + (kernels == 1 ? " kernel" : " kernels") +
            " early\n";
  }
  return text.empty() ? "every exchange is issued at its turn\n" : text;
}

}  // namespace tessera
