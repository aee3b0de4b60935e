#include "compiler/lower/internal/passes/prefetch.h"

#include <algorithm>
#include <functional>
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
    raise_first_levels();
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

  /// The exchanges of one mesh that are to be placed later, and sums of what they receive, the
  /// oldest first. An exchange is as old as what it reads is placed: from then on it may run.
  struct Waiting {
    struct Instance {
      Bytes bytes{0};  // that it holds
      int age = 0;
    };
    std::map<Time, Instance> instances;
    std::map<int, Time> by_age;
    Bytes bytes{0};
    int exchanges = 0;
    int next_age = 0;

    bool contains(Time time) const { return instances.contains(time); }
    Time oldest() const { return by_age.begin()->second; }
    void add(Time time, Bytes size) {
      instances.emplace(time, Instance{size, next_age});
      by_age.emplace(next_age++, time);
      bytes += size;
    }
    void rejuvenate(Time time) {
      Instance& instance = instances.at(time);
      by_age.erase(instance.age);
      instance.age = next_age;
      by_age.emplace(next_age++, time);
    }
    void remove(Time time) {
      const Instance& instance = instances.at(time);
      bytes = bytes - instance.bytes;
      by_age.erase(instance.age);
      instances.erase(time);
    }
  };

  void sink_exchanges() {
    const InstanceUses uses(program_);
    const IndexedVector<Time, Time> needed = first_needs(uses);
    IndexedVector<MeshIndex, Waiting> waiting(program_.meshes.size());
    InstanceOrder order;
    order.reserve(uses.order().size());
    const std::function<void(MeshIndex, Time)> place = [&](MeshIndex mesh, Time time) {
      for_each_writer(uses, time, [&](MeshIndex writers_mesh, Time writer) {
        if (waiting[writers_mesh].contains(writer)) place(writers_mesh, writer);
      });
      order.push_back(uses.order()[time]);
      waiting[mesh].remove(time);
      if (!at(uses, time).exchange()) return;
      --waiting[mesh].exchanges;
      for_each_reader(uses, time, [&](MeshIndex readers_mesh, Time reader) {
        if (waiting[readers_mesh].contains(reader)) waiting[readers_mesh].rejuvenate(reader);
      });
    };
    for (const Time time : uses.order().indices()) {
      const Instruction& instruction = at(uses, time);
      std::set<std::pair<MeshIndex, Time>> due;
      for_each_writer(uses, time, [&](MeshIndex mesh, Time writer) {
        if (waiting[mesh].contains(writer)) due.emplace(mesh, writer);
      });
      const bool is_needed_later = needed[time] > time + 1 && uses.order().contains(needed[time]);
      const bool waits = is_needed_later && (is_exchange_in_arena(instruction) ||
                                             (is_sum_in_arena(instruction) && !due.empty()));
      if (!waits) {
        for (const auto& [mesh, writer] : due)
          if (waiting[mesh].contains(writer)) place(mesh, writer);
        order.push_back(uses.order()[time]);
        continue;
      }
      Waiting& list = waiting[instruction.mesh];
      list.add(time, held_bytes(instruction));
      if (instruction.exchange()) ++list.exchanges;
      while (list.bytes > window_ || 2 * list.exchanges > kMaxPrefetches)
        place(instruction.mesh, list.oldest());
    }
    program_.order = std::move(order);
  }

  /// By instance that may wait: when something that may not wait first reads what is made of its
  /// result; the end when nothing does.
  IndexedVector<Time, Time> first_needs(const InstanceUses& uses) const {
    const Time end = uses.order().end_index();
    IndexedVector<Time, Time> needs(uses.order().size(), Time(0));
    for (Time time = end - 1; time >= Time(0); --time) {
      if (!is_exchange_in_arena(at(uses, time)) && !is_sum_in_arena(at(uses, time))) continue;
      needs[time] = end;
      for_each_reader(uses, time, [&](MeshIndex, Time reader) {
        needs[time] = std::min(needs[time], std::max(reader, needs[reader]));
      });
    }
    return needs;
  }

  template <class Visit>
  void for_each_writer(const InstanceUses& uses, Time time, const Visit& visit) const {
    uses.registers().for_each_read(at(uses, time), uses.order()[time].micro_batch,
                                   [&](RegisterIndex read) {
                                     if (const Time writer = uses.writer(read); !writer.is_none())
                                       visit(at(uses, writer).mesh, writer);
                                   });
  }

  template <class Visit>
  void for_each_reader(const InstanceUses& uses, Time time, const Visit& visit) const {
    uses.registers().for_each_written(at(uses, time), uses.order()[time].micro_batch,
                                      [&](RegisterIndex written) {
                                        for (const Time reader : uses.readers(written))
                                          visit(at(uses, reader).mesh, reader);
                                      });
  }

  bool is_exchange_in_arena(const Instruction& instruction) const {
    return is_transfer(instruction) && are_in_arena(instruction.exchange()->sources);
  }
  bool is_sum_in_arena(const Instruction& instruction) const {
    return is_sum_over_micro_batches(instruction) && are_in_arena(instruction.kernel()->inputs) &&
           are_in_arena(instruction.kernel()->outputs);
  }
  /// While it waits. The result of a sum takes the place of one of what it adds.
  Bytes held_bytes(const Instruction& instruction) const {
    const ExchangeStep* exchange = instruction.exchange();
    if (!exchange) return size_of_all(instruction.kernel()->outputs);
    return size_of_all(exchange->sources) + size_of_all(exchange->targets);
  }

  // ---- positions of two levels: the first one ahead ----

  /// An exchange whose result only the exchange behind it reads is moved up, to before the second
  /// one of the pair before: a second level may be issued only after the turn of the first one.
  void raise_first_levels() {
    const InstanceUses uses(program_);
    std::vector<std::pair<Time, Time>> moves;  // from, to before
    IndexedVector<MeshIndex, Time> second_before(program_.meshes.size());
    for (const Time time : uses.order().indices()) {
      if (!is_first_level(uses, time)) continue;
      const Instruction& instruction = at(uses, time);
      const Time before = second_before[instruction.mesh];
      second_before[instruction.mesh] = time + 1;
      if (before.is_none() || before == time ||
          size_of_all(instruction.exchange()->targets) > window_)
        continue;
      bool is_written_before = true;
      for_each_writer(uses, time, [&](MeshIndex, Time writer) {
        is_written_before = is_written_before && writer < before;
      });
      if (is_written_before && !writes_variables_between(uses, before, time))
        moves.emplace_back(time, before);
    }
    IndexedVector<Time, std::vector<Time>> moved_before(uses.order().size());
    std::set<Time> moved;
    for (const auto& [from, to] : moves) {
      moved_before[to].push_back(from);
      moved.insert(from);
    }
    InstanceOrder order;
    order.reserve(uses.order().size());
    for (const Time time : uses.order().indices()) {
      for (const Time from : moved_before[time]) order.push_back(uses.order()[from]);
      if (!moved.contains(time)) order.push_back(uses.order()[time]);
    }
    program_.order = std::move(order);
  }
  bool is_first_level(const InstanceUses& uses, Time time) const {
    const Instruction& instruction = at(uses, time);
    if (!is_transfer(instruction) || time + 1 == uses.order().end_index() ||
        !is_transfer(at(uses, time + 1)))
      return false;
    bool is_read_by_next = true;
    uses.registers().for_each_written(
        instruction, uses.order()[time].micro_batch, [&](RegisterIndex written) {
          const std::span<const Time> readers = uses.readers(written);
          is_read_by_next = is_read_by_next && readers.size() == 1 && readers.front() == time + 1;
        });
    return is_read_by_next;
  }
  bool writes_variables_between(const InstanceUses& uses, Time begin, Time end) const {
    for (const Time time : IndexRange(begin, end))
      for (const RegisterFormIndex written : at(uses, time).writes())
        if (reg(written).storage != Register::Storage::kArena) return true;
    return false;
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
