#include "lower/passes/combine.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"
#include "lower/live_bytes.h"
#include "lower/program_uses.h"

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
  Role role;
  int micro_batch;
  StageIndex stage;
  MeshIndex mesh;
  std::optional<PassKind> pass;
  MeshIndex source_mesh;
  ReshardKind kind;
  std::vector<AxisChange> changes;

  auto operator<=>(const Sort&) const = default;
};

class Combiner {
 public:
  Combiner(Program& program, const CombineOptions& options)
      : program_(program), options_(options), uses_(program) {
    for (MeshIndex mesh : program.meshes.indices()) live_.push_back({program, uses_, mesh});
    int kernels = 0;
    for (InstructionIndex i : program.instructions.indices()) {
      position_.push_back(i);
      members_.push_back({});
      kernels_before_.push_back(kernels);
      kernels += at(i).exchange() ? 0 : 1;
      alike_.push_back(at(i).exchange() && !is_of_chunk(i) ? &by_sort_[sort_of(i)] : nullptr);
      if (alike_[i]) alike_[i]->push_back(i);
      note_variables(i);
    }
  }

  /// In the order of the program, so that an exchange whose source is made by an earlier one knows
  /// where that one has moved.
  void run() {
    for (InstructionIndex i : program_.instructions.indices())
      if (alike_[i] && position_[i] == i) fill_group(i);
    rewrite();
  }

 private:
  const Instruction& at(InstructionIndex index) const { return program_.instructions[index]; }
  const ExchangeStep& exchange(InstructionIndex index) const { return *at(index).exchange(); }
  const Register& reg(RegisterIndex index) const { return program_.registers[index]; }

  Sort sort_of(InstructionIndex index) const {
    const Instruction& it = at(index);
    const ExchangeStep& step = exchange(index);
    return {it.role, it.micro_batch,          it.stage,    it.mesh,
            it.pass, reg(step.source()).mesh, step.kind(), axis_changes(step.exchange())};
  }

  /// The exchanges of chunks are apart on purpose: each runs while another chunk is computed.
  bool is_of_chunk(InstructionIndex index) const {
    return reg(exchange(index).source()).chunk.dim >= 0;
  }

  /// Notes which instructions read or write the memory of each variable.
  void note_variables(InstructionIndex index) {
    const auto note = [&](const auto& list) {
      for (RegisterIndex r : list)
        if (reg(r).storage == Register::Storage::kVariable)
          touches_[reg(r).variable].push_back(index);
    };
    note(at(index).reads());
    note(at(index).writes());
  }

  /// Combines with an exchange those behind it that may move up to it.
  void fill_group(InstructionIndex seed) {
    Bytes bytes = bytes_of(seed);
    std::set<RegisterIndex> sources = {exchange(seed).source()};
    const std::vector<InstructionIndex>& exchanges = *alike_[seed];
    for (auto next = std::upper_bound(exchanges.begin(), exchanges.end(), seed);
         next != exchanges.end(); ++next) {
      const InstructionIndex other = *next;
      if (position_[other] != other) continue;
      const bool is_next_to = kernels_before_[other] == kernels_before_[seed];
      if (!is_next_to && bytes + bytes_of(other) > limit_of(seed)) continue;
      if (sources.contains(exchange(other).source())) continue;
      if (!may_move_to(other, seed) || !take_memory(other, seed)) continue;
      bytes += bytes_of(other);
      sources.insert(exchange(other).source());
      position_[other] = seed;
      members_[seed].push_back(other);
    }
  }

  Bytes bytes_of(InstructionIndex index) const {
    return std::max(reg(exchange(index).source()).size, reg(exchange(index).target()).size);
  }
  Bytes limit_of(InstructionIndex index) const {
    return at(index).role == Role::kOptimizer ? options_.optimizer : options_.passes;
  }

  bool may_move_to(InstructionIndex index, InstructionIndex seed) const {
    const RegisterIndex source = exchange(index).source(), target = exchange(index).target();
    const InstructionIndex writer = uses_.writer(source);
    if (!writer.is_none() && position_[writer] >= seed) return false;
    if (reg(target).storage != Register::Storage::kVariable) return true;
    const std::vector<InstructionIndex>& touches = touches_.at(reg(target).variable);
    return std::none_of(touches.begin(), touches.end(), [&](InstructionIndex touch) {
      return touch != index && touch < index && position_[touch] >= seed;
    });
  }

  /// Accounts for the memory of an exchange that moves up.
  ///   returns  false, and changes nothing, when more would be alive at once than before
  bool take_memory(InstructionIndex index, InstructionIndex seed) {
    const Register &target = reg(exchange(index).target()), &source = reg(exchange(index).source());
    if (target.storage == Register::Storage::kArena) {
      LiveBytes& live = live_[target.mesh];
      live.add(seed, index, target.size);
      if (live.most(seed, index) > live.least_peak() && !frees_enough(index, seed)) {
        live.remove(seed, index, target.size);
        return false;
      }
    }
    if (source.storage == Register::Storage::kArena)
      live_[source.mesh].remove(end_of_source(index, seed), index + 1, source.size);
    return true;
  }

  /// Is no more alive at any instruction than at most before, when the source is freed behind the
  /// seed?
  bool frees_enough(InstructionIndex index, InstructionIndex seed) {
    const Register &target = reg(exchange(index).target()), &source = reg(exchange(index).source());
    if (source.storage != Register::Storage::kArena || source.mesh != target.mesh) return false;
    LiveBytes& live = live_[target.mesh];
    const InstructionIndex end = end_of_source(index, seed);
    live.remove(end, index + 1, source.size);
    const bool is_enough = live.most(seed, index) <= live.least_peak();
    live.add(end, index + 1, source.size);
    return is_enough;
  }

  /// The first instruction at which the source of an exchange is no longer needed, when the
  /// exchange is at `seed`: its own old place and one behind it if another one needs it longer.
  InstructionIndex end_of_source(InstructionIndex index, InstructionIndex seed) const {
    const RegisterIndex source = exchange(index).source();
    if (uses_.is_live_out(source)) return index + 1;
    InstructionIndex last = seed;
    for (InstructionIndex reader : uses_.readers(source))
      if (reader != index) last = std::max(last, position_[reader]);
    return std::min(last, index) + 1;
  }

  void rewrite() {
    IndexedVector<InstructionIndex, Instruction> combined;
    for (InstructionIndex i : program_.instructions.indices()) {
      if (position_[i] != i) continue;
      std::sort(members_[i].begin(), members_[i].end());
      Instruction& whole = program_.instructions[i];
      for (InstructionIndex member : members_[i])
        append(*whole.exchange(), *program_.instructions[member].exchange());
      combined.push_back(std::move(whole));
    }
    program_.instructions = std::move(combined);
  }

  static void append(ExchangeStep& whole, ExchangeStep& part) {
    whole.parts.push_back(std::move(part.parts.front()));
    whole.sources.push_back(part.source());
    whole.targets.push_back(part.target());
  }

  Program& program_;
  const CombineOptions options_;
  const ProgramUses uses_;
  IndexedVector<MeshIndex, LiveBytes> live_;
  std::map<Sort, std::vector<InstructionIndex>> by_sort_;  // ascending
  /// The exchanges of its sort; nullptr where nothing is combined.
  IndexedVector<InstructionIndex, std::vector<InstructionIndex>*> alike_;
  std::map<int, std::vector<InstructionIndex>> touches_;  // by variable, ascending
  IndexedVector<InstructionIndex, int> kernels_before_;   // instructions that are no exchanges
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
    for (RegisterIndex target : step->targets) names.push_back(program.registers[target].name);
    text += std::string(to_text(step->kind())) + " of " + std::to_string(names.size()) +
            " tensors: " + join(names, ", ") + "\n";
  }
  return text.empty() ? "no exchanges are combined\n" : text;
}

}  // namespace tessera
