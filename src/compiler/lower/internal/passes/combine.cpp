#include "compiler/lower/internal/passes/combine.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/text/text.h"
#include "compiler/lower/internal/instances.h"
#include "compiler/lower/internal/live_bytes.h"

namespace tessera {
namespace {

/// The change of a placement on one mesh axis.
using AxisChange = std::tuple<int, Placement::Kind, Placement::Kind, ReduceOp>;

std::vector<AxisChange> axis_changes(const Exchange& exchange) {
  if (!on_one_mesh(exchange.from, exchange.to)) return {};
  const std::vector<Placement> from = exchange.from.placements(), to = exchange.to.placements();
  std::vector<AxisChange> changes;
  for (int axis = 0; axis < std::ssize(from); ++axis) {
    if (from[axis] == to[axis]) continue;
    const bool is_partial = from[axis].kind == Placement::Kind::kPartial;
    changes.emplace_back(axis, from[axis].kind, to[axis].kind,
                         is_partial ? from[axis].reduce : to[axis].reduce);
  }
  return changes;
}

/// What exchanges have in common that may be combined.
struct Sort {
  Role role;  // the optimizer, where nothing in the step waits for the target
  int micro_batch;
  StageIndex stage;
  MeshIndex mesh;
  std::vector<std::optional<PassKind>> passes;  // of the instances
  MeshIndex source_mesh;
  ReshardKind kind;
  std::vector<AxisChange> changes;

  auto operator<=>(const Sort&) const = default;
};

class Combiner {
 public:
  Combiner(Program& program, const CombineOptions& options)
      : program_(program),
        options_(options),
        uses_(program),
        live_(live_bytes(program, uses_)),
        times_(program.instructions.size()) {
    int kernels = 0;
    for (Time time : uses_.order().indices()) {
      times_[instruction_at(time)].push_back(time);
      kernels_before_.push_back(kernels);
      kernels += at(instruction_at(time)).exchange() ? 0 : 1;
      note_variables(time);
    }
    for (InstructionIndex i : program.instructions.indices()) {
      position_.push_back(i);
      members_.push_back({});
    }
    alike_.assign(program.instructions.size(), nullptr);
    for (InstructionIndex i : exchanges_in_order()) {
      alike_[i] = &by_sort_[sort_of(i)];
      alike_[i]->push_back(i);
    }
  }

  /// In the order of the program, so that an exchange whose source is made by an earlier one knows
  /// where that one has moved.
  void run() {
    for (InstructionIndex i : exchanges_in_order())
      if (position_[i] == i) fill_group(i);
    rewrite();
  }

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const ExchangeStep& exchange(InstructionIndex index) const { return *at(index).exchange(); }
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }
  InstructionIndex instruction_at(Time time) const { return uses_.order()[time].instruction; }

  /// Those that may be combined, by their first instances. The exchanges of chunks are apart on
  /// purpose: each runs while another chunk is computed.
  std::vector<InstructionIndex> exchanges_in_order() const {
    std::vector<InstructionIndex> list;
    for (Time time : uses_.order().indices())
      if (const InstructionIndex i = instruction_at(time);
          at(i).exchange() && times_[i].front() == time && reg(exchange(i).source()).chunk.dim < 0)
        list.push_back(i);
    return list;
  }

  Sort sort_of(InstructionIndex index) const {
    const Instruction& it = at(index);
    const ExchangeStep& step = exchange(index);
    std::vector<std::optional<PassKind>> passes;
    for (Time time : times_[index]) passes.push_back(uses_.order()[time].pass);
    return {is_read(step.target()) ? it.role : Role::kOptimizer,
            it.micro_batch,
            it.stage,
            it.mesh,
            std::move(passes),
            reg(step.source()).mesh,
            step.kind(),
            axis_changes(step.exchange())};
  }

  /// Does an instruction of the step read it? None does a result such as the loss.
  bool is_read(RegisterFormIndex target) const {
    for (RegisterIndex instance : uses_.registers().at(target))
      if (!uses_.readers(instance).empty()) return true;
    return false;
  }

  /// Notes which instances read or write the memory of each variable.
  void note_variables(Time time) {
    const auto note = [&](RegisterIndex instance) {
      if (!uses_.registers().is_in_arena(program_, instance))
        touches_[reg(uses_.registers().form_of(instance)).variable].push_back(time);
    };
    const InstructionInstance& instance = uses_.order()[time];
    uses_.registers().for_each_read(at(instance.instruction), instance.micro_batch, note);
    uses_.registers().for_each_written(at(instance.instruction), instance.micro_batch, note);
  }

  /// Where an instance is after what was combined so far.
  Time moved(Time time) const {
    const InstructionIndex instruction = instruction_at(time), to = position_[instruction];
    if (to == instruction) return time;
    const std::vector<Time>& own = times_[instruction];
    return times_[to][std::lower_bound(own.begin(), own.end(), time) - own.begin()];
  }

  /// Combines with an exchange those after it that may move up to it.
  void fill_group(InstructionIndex seed) {
    Bytes bytes = bytes_of(seed);
    std::set<RegisterFormIndex> sources = {exchange(seed).source()};
    const std::vector<InstructionIndex>& exchanges = *alike_[seed];
    for (auto next = std::find(exchanges.begin(), exchanges.end(), seed) + 1;
         next != exchanges.end(); ++next) {
      const InstructionIndex other = *next;
      if (position_[other] != other) continue;
      if (!are_neighbours(seed, other) && bytes + bytes_of(other) > limit_of(seed)) continue;
      if (sources.contains(exchange(other).source())) continue;
      if (!may_move_to(other, seed) || !take_memory(other, seed)) continue;
      bytes += bytes_of(other);
      sources.insert(exchange(other).source());
      position_[other] = seed;
      members_[seed].push_back(other);
    }
  }

  /// Are there no kernels between them in any micro-batch?
  bool are_neighbours(InstructionIndex seed, InstructionIndex other) const {
    return std::equal(times_[seed].begin(), times_[seed].end(), times_[other].begin(),
                      [this](Time a, Time b) { return kernels_before_[a] == kernels_before_[b]; });
  }

  Bytes bytes_of(InstructionIndex index) const {
    return std::max(reg(exchange(index).source()).size, reg(exchange(index).target()).size);
  }
  Bytes limit_of(InstructionIndex index) const {
    return at(index).role == Role::kOptimizer ? options_.optimizer : options_.passes;
  }

  bool may_move_to(InstructionIndex index, InstructionIndex seed) const {
    const std::vector<Time>&from = times_[index], &to = times_[seed];
    return std::equal(from.begin(), from.end(), to.begin(),
                      [this](Time a, Time b) { return b < a && may_move_to(a, b); });
  }

  bool may_move_to(Time time, Time seed) const {
    const Time writer = uses_.writer(source_at(time));
    if (!writer.is_none() && moved(writer) >= seed) return false;
    const RegisterForm& target = reg(exchange(instruction_at(time)).target());
    if (target.storage != Register::Storage::kVariable) return true;
    const std::vector<Time>& touches = touches_.at(target.variable);
    return std::none_of(touches.begin(), touches.end(), [&](Time touch) {
      return touch != time && touch < time && moved(touch) >= seed;
    });
  }

  RegisterIndex source_at(Time time) const {
    const InstructionInstance& instance = uses_.order()[time];
    return uses_.registers().read(exchange(instance.instruction).source(), instance.micro_batch);
  }

  // ---- memory ----

  /// Accounts for the memory of an exchange that moves up, in each micro-batch.
  ///   returns  false, and changes nothing, when more would be alive at once than before
  bool take_memory(InstructionIndex index, InstructionIndex seed) {
    const std::vector<Time>&from = times_[index], &to = times_[seed];
    for (size_t i = 0; i < from.size(); ++i) {
      if (take_memory(from[i], to[i])) continue;
      while (i-- > 0) give_memory_back(from[i], to[i]);
      return false;
    }
    return true;
  }

  bool take_memory(Time time, Time seed) {
    const ExchangeStep& step = exchange(instruction_at(time));
    const RegisterForm &target = reg(step.target()), &source = reg(step.source());
    if (target.storage == Register::Storage::kArena) {
      LiveBytes& live = live_[target.mesh];
      live.add(seed, time, target.size);
      if (live.largest(seed, time) > live.min_peak() && !frees_enough(time, seed)) {
        live.remove(seed, time, target.size);
        return false;
      }
    }
    if (source.storage == Register::Storage::kArena)
      live_[source.mesh].remove(end_of_source(time, seed), time + 1, source.size);
    return true;
  }

  void give_memory_back(Time time, Time seed) {
    const ExchangeStep& step = exchange(instruction_at(time));
    const RegisterForm &target = reg(step.target()), &source = reg(step.source());
    if (target.storage == Register::Storage::kArena)
      live_[target.mesh].remove(seed, time, target.size);
    if (source.storage == Register::Storage::kArena)
      live_[source.mesh].add(end_of_source(time, seed), time + 1, source.size);
  }

  /// Is no more alive at any instance than at most before, when the source is freed after the
  /// seed?
  bool frees_enough(Time time, Time seed) {
    const ExchangeStep& step = exchange(instruction_at(time));
    const RegisterForm &target = reg(step.target()), &source = reg(step.source());
    if (source.storage != Register::Storage::kArena || source.mesh != target.mesh) return false;
    LiveBytes& live = live_[target.mesh];
    const Time end = end_of_source(time, seed);
    live.remove(end, time + 1, source.size);
    const bool is_enough = live.largest(seed, time) <= live.min_peak();
    live.add(end, time + 1, source.size);
    return is_enough;
  }

  /// The first instance at which the source of an exchange is no longer needed, when the exchange
  /// is at `seed`: its own old place and one after it if another one needs it longer.
  Time end_of_source(Time time, Time seed) const {
    const RegisterIndex source = source_at(time);
    if (uses_.is_live_out(source)) return time + 1;
    Time last = seed;
    for (Time reader : uses_.readers(source))
      if (reader != time) last = std::max(last, moved(reader));
    return std::min(last, time) + 1;
  }

  // ---- the result ----

  void rewrite() {
    IndexedVector<InstructionIndex, Instruction> combined;
    IndexedVector<InstructionIndex, InstructionIndex> places(program_.instructions.size());
    for (InstructionIndex i : program_.instructions.indices()) {
      if (position_[i] != i) continue;
      Instruction& whole = program_.instructions[i];
      for (InstructionIndex member : members_[i])
        append(*whole.exchange(), *program_.instructions[member].exchange());
      places[i] = combined.push_back(std::move(whole));
    }
    program_.instructions = std::move(combined);
    InstanceOrder order;
    for (InstructionInstance instance : program_.order)
      if (const InstructionIndex place = places[instance.instruction]; !place.is_none()) {
        instance.instruction = place;
        order.push_back(instance);
      }
    program_.order = std::move(order);
  }

  static void append(ExchangeStep& whole, ExchangeStep& part) {
    whole.parts.push_back(std::move(part.parts.front()));
    whole.sources.push_back(part.source());
    whole.targets.push_back(part.target());
  }

  Program& program_;
  const CombineOptions options_;
  const InstanceUses uses_;
  IndexedVector<MeshIndex, LiveBytes> live_;
  IndexedVector<InstructionIndex, std::vector<Time>> times_;  // of the instances
  std::map<Sort, std::vector<InstructionIndex>> by_sort_;     // by first instance
  /// The exchanges of its sort; nullptr where nothing is combined.
  IndexedVector<InstructionIndex, std::vector<InstructionIndex>*> alike_;
  std::map<int, std::vector<Time>> touches_;  // by variable, ascending
  IndexedVector<Time, int> kernels_before_;   // instances that are no exchanges
  /// The instruction whose place it takes: itself, or the first of its group.
  IndexedVector<InstructionIndex, InstructionIndex> position_;
  IndexedVector<InstructionIndex, std::vector<InstructionIndex>> members_;  // by first of a group
};

}  // namespace

void combine_exchanges(Program& program, const CombineOptions& options) {
  Combiner(program, options).run();
}

std::string combine_text(const Program& program) {
  std::string text;
  for (const Instruction& instruction : program.instructions) {
    const ExchangeStep* step = instruction.exchange();
    if (!step || step->parts.size() == 1) continue;
    std::vector<std::string> names;
    for (RegisterFormIndex target : step->targets)
      names.push_back(program.registers[target].name.with("i"));
    text += std::string(to_text(step->kind())) + " of " + std::to_string(names.size()) +
            " tensors: " + join(names, ", ") + "\n";
  }
  return text.empty() ? "no exchanges are combined\n" : text;
}

}  // namespace tessera
