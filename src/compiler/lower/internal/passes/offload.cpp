#include "compiler/lower/internal/passes/offload.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/tensor/tensor.h"
#include "compiler/lower/internal/instances.h"

namespace tessera {
namespace {

/// One offloaded variable. Times are those of the order without copies.
struct State {
  size_t variable = 0;            // in Program::variables
  RegisterFormIndex value, next;  // in memory; next: none when nothing updates it
  Time first_reader = {}, writer = {}, last_use = {};
  Bytes size{0};
  int64_t offset = 0;   // in the window
  Time free_from = {};  // the last use of those whose bytes it takes; none: of no variable before
};

/// A ring of bytes, each of which belongs to the state that took it last.
class Ring {
 public:
  explicit Ring(int64_t size) : size_(size) {}

  /// Gives `state` a place after that of the state before.
  ///   returns  false when a state that has the bytes is still used when `state` is read first
  bool place(State& state) {
    const int64_t size = align_up(state.size.value());
    if (next_ + size > size_) next_ = 0;
    state.offset = next_;
    state.free_from = {};
    next_ += size;
    for (const State* before : take(state.offset, state.offset + size, state)) {
      if (before->last_use >= state.first_reader) return false;
      state.free_from = std::max(state.free_from, before->last_use);
    }
    return true;
  }

 private:
  struct Piece {
    int64_t end = 0;
    const State* owner = nullptr;
  };

  /// The former owners of [begin, end), which is now that of `owner`.
  std::vector<const State*> take(int64_t begin, int64_t end, const State& owner) {
    split_at(begin);
    split_at(end);
    std::vector<const State*> former;
    const auto first = pieces_.lower_bound(begin);
    auto after = first;
    for (; after != pieces_.end() && after->first < end; ++after)
      former.push_back(after->second.owner);
    pieces_.erase(first, after);
    pieces_[begin] = {end, &owner};
    return former;
  }

  void split_at(int64_t at) {
    auto after = pieces_.lower_bound(at);
    if (after == pieces_.begin()) return;
    Piece& piece = std::prev(after)->second;
    if (piece.end <= at) return;
    pieces_[at] = piece;
    piece.end = at;
  }

  const int64_t size_;
  int64_t next_ = 0;
  std::map<int64_t, Piece> pieces_;  // by begin
};

class Offloader {
 public:
  Offloader(Program& program, const std::set<std::string>& names, Bytes window)
      : program_(program), names_(names), window_(window), uses_(program) {}

  void run() {
    std::map<MeshIndex, std::vector<State>> by_mesh;
    for (size_t v = 0; v < program_.variables.size(); ++v)
      if (const std::optional<State> state = state_of(v))
        by_mesh[reg(state->value).mesh].push_back(*state);
    if (by_mesh.empty()) return;
    order_ = uses_.order();
    before_.resize(order_.size());
    behind_.resize(order_.size());
    for (auto& [mesh, states] : by_mesh) {
      refuse_accelerator(mesh, states);
      std::ranges::stable_sort(states, {}, &State::first_reader);
      place(mesh, states);
      add_copies(mesh, states);
    }
    insert_copies();
  }

 private:
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }
  const Instruction& at(Time time) const {
    return program_.instructions[uses_.order()[time].instruction];
  }

  // ---- which variables ----

  /// Nothing: the variable stays in memory.
  std::optional<State> state_of(size_t v) const {
    const RegisterFormIndex value = program_.variables[v].value, next = program_.next[v];
    if (!names_.contains(program_.variables[v].name)) return std::nullopt;
    State state{.variable = v, .value = value, .next = {}, .size = reg(value).size};
    if (!add_uses(value, state) || state.first_reader.is_none()) return std::nullopt;
    if (next.is_none() || next == value) return state;
    state.next = next;
    if (!is_update(value, next, state) || !add_uses(next, state)) return std::nullopt;
    return state;
  }

  /// Notes the readers of a register; false when one is no kernel of the step, or the register is
  /// there in several micro-batches.
  bool add_uses(RegisterFormIndex index, State& state) const {
    if (uses_.registers().repeats(index) != Repeats::kOnce) return false;
    for (const auto& [name, result] : program_.results)
      if (result == index) return false;
    for (const Time reader : uses_.readers(uses_.registers().whole(index))) {
      if (!at(reader).kernel() || at(reader).kernel()->control) return false;
      state.last_use = std::max(state.last_use, reader);
      if (index == state.value && state.first_reader.is_none()) state.first_reader = reader;
    }
    return true;
  }

  /// Does one kernel read the value and write the next one, in the memory of the variable?
  bool is_update(RegisterFormIndex value, RegisterFormIndex next, State& state) const {
    const RegisterForm& written = reg(next);
    const auto v = static_cast<int>(state.variable);
    if (written.storage != Register::Storage::kVariable || written.variable != v) return false;
    state.writer = uses_.writer(uses_.registers().whole(next));
    if (state.writer.is_none() || uses_.order()[state.writer].micro_batch >= 0) return false;
    const KernelForm* kernel = at(state.writer).kernel();
    if (!kernel || std::ranges::count(kernel->inputs, value) == 0) return false;
    state.last_use = std::max(state.last_use, state.writer);
    return true;
  }

  void refuse_accelerator(MeshIndex mesh, const std::vector<State>& states) const {
    const DeviceKind kind = program_.devices[mesh];
    if (kind == DeviceKind::kHost) return;
    throw UserError("the plan offloads '" + program_.variables[states.front().variable].name +
                        "', which is on a mesh of devices of the kind " +
                        std::string(to_text(kind)),
                    "offload copies between the memory of hosts and a file",
                    "remove offload from the plan, or put the op on a mesh of the device kind host",
                    ExitCode::kBadConfig);
  }

  // ---- where in the window ----

  /// Gives each state its place, in the smallest window that suffices and is not below window_.
  void place(MeshIndex mesh, std::vector<State>& states) {
    int64_t all = 0, size = align_up(window_.value());
    for (const State& state : states) all += align_up(state.size.value());
    for (const State& state : states) size = std::max(size, align_up(state.size.value()));
    size = std::min(size, all);
    while (!place_within(size, states)) size = std::min(all, align_up(size + size / 8 + 1));
    StateWindow& window = program_.windows[mesh];
    window.size = Bytes(size);
    for (const State& state : states) {
      window.offsets[state.value] = state.offset;
      if (!state.next.is_none()) window.offsets[state.next] = state.offset;
    }
  }

  static bool place_within(int64_t size, std::vector<State>& states) {
    Ring ring(size);
    return std::ranges::all_of(states, [&](State& state) { return ring.place(state); });
  }

  // ---- copies ----

  void add_copies(MeshIndex mesh, const std::vector<State>& states) {
    const MeshIndex file = program_.meshes.push_back(MeshPtr(program_.meshes[mesh]));
    program_.devices.push_back(DeviceKind::kFile);
    for (const State& state : states) {
      const RegisterFormIndex resting = move_to_file(state.value, file);
      program_.variables[state.variable].value = resting;
      auto& list = state.free_from.is_none() ? before_.front() : behind_[state.free_from];
      list.push_back(make_copy(state.first_reader, resting, state.value));
      if (state.next.is_none()) {
        if (!program_.next[state.variable].is_none()) program_.next[state.variable] = resting;
        continue;
      }
      const RegisterFormIndex kept = move_to_file(state.next, file);
      program_.next[state.variable] = kept;
      // It comes before the copies of those that take the bytes.
      auto& written = behind_[state.writer];
      written.insert(written.begin(), make_copy(state.writer, state.next, kept));
    }
  }

  /// A register of the file in place of one in the memory of a variable, which is in an arena then.
  RegisterFormIndex move_to_file(RegisterFormIndex index, MeshIndex file) {
    RegisterForm moved = reg(index);
    moved.name += " in a file";
    moved.mesh = file;
    RegisterForm& in_memory = program_.registers[index];
    in_memory.storage = Register::Storage::kArena;
    in_memory.variable = -1;
    return program_.registers.push_back(std::move(moved));
  }

  /// A copy in the pass of the instance at `like`.
  InstructionInstance make_copy(Time like, RegisterFormIndex source, RegisterFormIndex target) {
    Instruction copy = in_pass_of(at(like), CopyStep{source, target});
    copy.micro_batch = -1;
    copy.mesh = reg(target).mesh;
    return {program_.instructions.push_back(std::move(copy)), -1, order_[like].pass};
  }

  void insert_copies() {
    program_.order.clear();
    for (const Time time : order_.indices()) {
      for (const InstructionInstance& copy : before_[time]) program_.order.push_back(copy);
      program_.order.push_back(order_[time]);
      for (const InstructionInstance& copy : behind_[time]) program_.order.push_back(copy);
    }
  }

  Program& program_;
  const std::set<std::string>& names_;
  const Bytes window_;
  const InstanceUses uses_;  // of the program without copies
  InstanceOrder order_;      // the same
  // By time: what is copied right before it, or after it.
  IndexedVector<Time, std::vector<InstructionInstance>> before_, behind_;
};

}  // namespace

void offload_variables(Program& program, const std::set<std::string>& names, Bytes window) {
  if (!names.empty()) Offloader(program, names, window).run();
}

MeshNames with_file_names(const Program& program, MeshNames names) {
  for (const MeshIndex mesh : program.meshes.indices()) {
    if (program.devices[mesh] != DeviceKind::kFile) continue;
    MeshIndex near(0);
    while (program.meshes[near] != program.meshes[mesh]) ++near;
    names.push_back(names[near] + " in a file");
  }
  return names;
}

std::string offload_text(const Program& program) {
  std::string text;
  for (const auto& [mesh, window] : program.windows) {
    Bytes all{0};
    for (const ProgramVariable& variable : program.variables)
      if (program.devices[program.registers[variable.value].mesh] == DeviceKind::kFile &&
          program.meshes[program.registers[variable.value].mesh] == program.meshes[mesh])
        all += program.registers[variable.value].size;
    text += to_text(all) + " of state in a file, " + to_text(window.size) + " in memory at once\n";
  }
  for (const InstructionInstance& instance : program.order)
    if (const CopyStep* copy = program.instructions[instance.instruction].copy())
      if (const MeshIndex to = program.registers[copy->target].mesh;
          program.devices[to] == DeviceKind::kFile ||
          program.devices[program.registers[copy->source].mesh] == DeviceKind::kFile)
        text += program.registers[copy->target].name.with("i") + " = copy(" +
                program.registers[copy->source].name.with("i") + ")\n";
  return text.empty() ? "no state is offloaded\n" : text;
}

}  // namespace tessera
