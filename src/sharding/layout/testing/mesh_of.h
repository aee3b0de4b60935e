// Meshes, as tests write them: mesh_of("dp=2 tp=4").
#pragma once

#include <memory>
#include <string_view>

#include "sharding/layout/mesh.h"

namespace tessera {

inline MeshPtr mesh_of(std::string_view text) {
  return std::make_shared<const Mesh>(parse_mesh(text));
}

}  // namespace tessera
