//! What is changed in Lua 5.1.5, place by place. `docs/advisories.md` names the advisory that each
//! edit is for.
//!
//! What Redis and Valkey change beside this is done elsewhere: tables that scripts share are read-only by `prelude.lua`;
//! `cjson`, `cmsgpack`, `struct`, `bit` and the patterns of `string` are written in Rust.

/// One edit: `before` occurs once in `file` and becomes `after`.
pub struct Edit {
    pub file: &'static str,
    pub why: &'static str,
    pub before: &'static str,
    pub after: &'static str,
}

pub const EDITS: &[Edit] = &[
    Edit {
        file: "lbaselib.c",
        why: "unpack: a range of 2^31 values overflows its count (CVE-2025-46817)",
        before: "  n = e - i + 1;  /* number of elements */\n",
        after: "  if ((unsigned int)e - (unsigned int)i >= LUAI_MAXCSTACK)\n    \
                  return luaL_error(L, \"too many results to unpack\");\n  n = e - i + 1;  /* number of elements */\n",
    },
    Edit {
        file: "ltable.c",
        why: "integer keys: the smallest integer minus one overflows (CVE-2025-46817)",
        before: "  if (cast(unsigned int, key-1) < cast(unsigned int, t->sizearray))\n",
        after: "  if (1 <= key && key <= t->sizearray)\n",
    },
    Edit {
        file: "lmem.c",
        why: "the allocator ends the process where the system has no memory: Lua asks first",
        before: "#include \"lstate.h\"\n",
        after: "#include \"lstate.h\"\n#include \"room.h\"\n",
    },
    Edit {
        file: "lmem.c",
        why: "a script for which the system has no memory fails, and the process goes on",
        before: "  block = (*g->frealloc)(g->ud, block, osize, nsize);\n",
        after: "  if (lacks_room(g->ud, g->totalbytes, osize, nsize))\n    luaD_throw(L, LUA_ERRMEM);\n  \
                block = (*g->frealloc)(g->ud, block, osize, nsize);\n",
    },
    Edit {
        file: "lparser.c",
        why: "the chunk's name is on the stack, so that a collection while parsing keeps it (CVE-2025-49844)",
        before: "  luaX_setinput(L, &lexstate, z, luaS_new(L, name));\n",
        after: "  TString *chunk_name = luaS_new(L, name);\n  setsvalue2s(L, L->top, chunk_name);\n  incr_top(L);\n  \
                luaX_setinput(L, &lexstate, z, chunk_name);\n",
    },
    Edit {
        file: "lparser.c",
        why: "the chunk's name leaves the stack again (CVE-2025-49844)",
        before: "  close_func(&lexstate);\n  lua_assert(funcstate.prev == NULL);\n",
        after: "  close_func(&lexstate);\n  L->top--;\n  lua_assert(funcstate.prev == NULL);\n",
    },
    Edit {
        file: "llex.c",
        why: "a long bracket's level and twice its length fit an int (CVE-2025-46819)",
        before: "    save_and_next(ls);\n    count++;\n",
        after: "    if (count >= MAX_INT/4)\n      luaX_lexerror(ls, \"too many '=' in a long bracket\", 0);\n    \
                save_and_next(ls);\n    count++;\n",
    },
    Edit {
        file: "llex.c",
        why: "an error in the first token reads the token before it",
        before: "  ls->decpoint = '.';\n  ls->L = L;\n",
        after: "  ls->t.token = 0;\n  ls->decpoint = '.';\n  ls->L = L;\n",
    },
    Edit {
        file: "ldo.c",
        why: "compiled code is never loaded: it is not verified",
        before: "  tf = ((c == LUA_SIGNATURE[0]) ? luaU_undump : luaY_parser)(L, p->z,\n",
        after: "  (void)c;\n  tf = luaY_parser(L, p->z,\n",
    },
    // Strings are found by a keyed hash over every byte; `seeded.h` says why.
    Edit {
        file: "lobject.h",
        why: "a string's seeded hash is beside its length",
        before: "    unsigned int hash;\n    size_t len;\n",
        after: "    unsigned int hash;\n    size_t seeded : SEEDED_BITS;\n    size_t len : LENGTH_BITS;\n",
    },
    Edit {
        file: "lobject.h",
        why: "the seeded hash",
        before: "#include \"llimits.h\"\n#include \"lua.h\"\n",
        after: "#include \"llimits.h\"\n#include \"lua.h\"\n#include \"seeded.h\"\n",
    },
    Edit {
        file: "lstring.c",
        why: "the string table grows by the seeded hash",
        before: "      unsigned int h = gco2ts(p)->hash;\n",
        after: "      unsigned int h = gco2ts(p)->seeded;\n",
    },
    Edit {
        file: "lstring.c",
        why: "a new string knows its seeded hash",
        before: "                                       unsigned int h) {\n",
        after: "                                       unsigned int h, unsigned int seeded) {\n",
    },
    Edit {
        file: "lstring.c",
        why: "a string's length has 40 bits",
        before: "  if (l+1 > (MAX_SIZET - sizeof(TString))/sizeof(char))\n",
        after: "  if (l >= ((size_t)1 << LENGTH_BITS) - 1)\n",
    },
    Edit {
        file: "lstring.c",
        why: "a new string keeps its seeded hash",
        before: "  ts->tsv.hash = h;\n",
        after: "  ts->tsv.hash = h;\n  ts->tsv.seeded = seeded;\n",
    },
    Edit {
        file: "lstring.c",
        why: "a new string is chained by its seeded hash",
        before: "  h = lmod(h, tb->size);\n",
        after: "  h = lmod(seeded, tb->size);\n",
    },
    Edit {
        file: "lstring.c",
        why: "a string is looked for by its seeded hash",
        before: "  unsigned int h = cast(unsigned int, l);  /* seed */\n",
        after: "  unsigned int seeded = seeded_hash(str, l);\n  unsigned int h = cast(unsigned int, l);  /* seed */\n",
    },
    Edit {
        file: "lstring.c",
        why: "a string is looked for in the chain of its seeded hash",
        before: "  for (o = G(L)->strt.hash[lmod(h, G(L)->strt.size)];\n",
        after: "  for (o = G(L)->strt.hash[lmod(seeded, G(L)->strt.size)];\n",
    },
    Edit {
        file: "lstring.c",
        why: "strings of another hash are not compared",
        before: "    if (ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {\n",
        after: "    if (ts->tsv.seeded == seeded && ts->tsv.len == l && (memcmp(str, getstr(ts), l) == 0)) {\n",
    },
    Edit {
        file: "lstring.c",
        why: "a string that is not found is made with its seeded hash",
        before: "  return newlstr(L, str, l, h);  /* not found */\n",
        after: "  return newlstr(L, str, l, h, seeded);  /* not found */\n",
    },
    Edit {
        file: "ltable.c",
        why: "the strings of large tables are found by the seeded hash",
        before: "#define hashstr(t,str)  hashpow2(t, (str)->tsv.hash)\n",
        after: "#define hashstr(t,str)  \\\n\thashpow2(t, (t)->lsizenode > SMALL_TABLE ? (unsigned int)(str)->tsv.seeded : (str)->tsv.hash)\n",
    },
    Edit {
        file: "ltable.c",
        why: "the numbers of large tables are found by the seeded hash",
        before: "  memcpy(a, &n, sizeof(a));\n",
        after: "  if (t->lsizenode > SMALL_TABLE)\n    return hashpow2(t, seeded_hash(&n, sizeof(n)));\n  memcpy(a, &n, sizeof(a));\n",
    },
];
