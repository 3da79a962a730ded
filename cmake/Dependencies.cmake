# Libraries as Debian ships them: static archives where there is one, header-only otherwise.
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(SQLite3 REQUIRED)

# oncerun_find_archive(TARGET archive library): an imported target that prefers the archive.
function(oncerun_find_archive target name)
  find_library(${target}_ARCHIVE NAMES lib${name}.a)
  find_library(${target}_SHARED NAMES ${name})
  add_library(${target} INTERFACE)
  if(${target}_ARCHIVE)
    target_link_libraries(${target} INTERFACE ${${target}_ARCHIVE})
  elseif(${target}_SHARED)
    target_link_libraries(${target} INTERFACE ${${target}_SHARED})
  else()
    message(FATAL_ERROR "lib${name} is missing; packaging/quickstart.sh installs what the build needs")
  endif()
endfunction()

oncerun_find_archive(oncerun_sqlite sqlite3)
# SQLite's archive names functions of libm that nothing here calls. Loaded with the program it would
# cost every start a tenth of a millisecond: src/ledger/lazy_math.cpp loads it when it is used.
if(oncerun_sqlite_ARCHIVE AND NOT ONCERUN_STATIC AND NOT CMAKE_BUILD_TYPE MATCHES "Sanitize")
  target_link_libraries(oncerun_sqlite INTERFACE oncerun_lazy_math ${CMAKE_DL_LIBS})
endif()
target_link_libraries(oncerun_sqlite INTERFACE -Wl,--as-needed m)
oncerun_find_archive(oncerun_uuid uuid)
oncerun_find_archive(oncerun_hiredis hiredis)

add_library(oncerun_fmt INTERFACE)
target_link_libraries(oncerun_fmt INTERFACE fmt::fmt-header-only)
target_compile_definitions(oncerun_fmt INTERFACE FMT_HEADER_ONLY)

# Debian's spdlog target would bring the shared libraries; only its headers are wanted.
add_library(oncerun_spdlog INTERFACE)
get_target_property(oncerun_spdlog_include spdlog::spdlog INTERFACE_INCLUDE_DIRECTORIES)
target_include_directories(oncerun_spdlog SYSTEM INTERFACE ${oncerun_spdlog_include})
target_compile_definitions(oncerun_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(oncerun_spdlog INTERFACE oncerun_fmt)
