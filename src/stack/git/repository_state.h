// What a Repository owns; shared by its .cpp files only.
#pragma once

#include "stack/git/libgit2.h"
#include "stack/git/repository.h"

namespace tessera::stack {

struct Repository::State {
  GitLibrary library;  // first: dies last
  GitRepository repository;
  GitOdb odb;
  std::string path;
};

}  // namespace tessera::stack
