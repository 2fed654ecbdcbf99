"""The functions, relations and node types that are safe.  All others are rejected by name.

Sources: pg_proc.dat, parsenodes.h and primnodes.h of PostgreSQL 15 to 18.
"""

import re
from collections.abc import Mapping
from typing import Any, Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NODES: Final = _words(
    """
    AGGREF ALIAS ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASEEXPR CASETESTEXPR CASEWHEN
    COALESCEEXPR COERCETODOMAIN COERCETODOMAINVALUE COERCEVIAIO COLLATEEXPR COMMONTABLEEXPR
    CONST CONVERTROWTYPEEXPR CTECYCLECLAUSE CTESEARCHCLAUSE DISTINCTEXPR FIELDSELECT FIELDSTORE
    FROMEXPR FUNCEXPR GROUPINGFUNC GROUPINGSET JOINEXPR JSONBEHAVIOR JSONCONSTRUCTOREXPR
    JSONEXPR JSONFORMAT JSONISPREDICATE JSONRETURNING JSONTABLEPATH JSONTABLEPATHSCAN
    JSONTABLEPLAN JSONTABLESIBLINGJOIN JSONVALUEEXPR MINMAXEXPR NAMEDARGEXPR NULLIFEXPR NULLTEST
    OPEXPR PARAM QUERY RANGETBLENTRY RANGETBLFUNCTION RANGETBLREF RELABELTYPE ROWCOMPAREEXPR
    ROWEXPR RTEPERMISSIONINFO SCALARARRAYOPEXPR SETOPERATIONSTMT SORTGROUPCLAUSE
    SQLVALUEFUNCTION SUBLINK SUBSCRIPTINGREF TABLEFUNC TABLESAMPLECLAUSE TARGETENTRY VAR
    WINDOWCLAUSE WINDOWFUNC XMLEXPR
    """
)

# Fields that name functions, operators and types.  The type of a column reference (VAR) is not
# checked: reading a value runs no domain constraint.
FUNCTION_FIELDS: Final = (
    "funcid", "opfuncid", "hashfuncid", "negfuncid", "aggfnoid", "winfnoid", "tsmhandler",
    "startInRangeFunc", "endInRangeFunc",
)  # fmt: skip
OPERATOR_FIELDS: Final = ("opno", "opnos", "eqop", "sortop", "cycle_mark_neop")
TYPE_FIELDS: Final = (
    "consttype", "resulttype", "funcresulttype", "aggtype", "wintype", "opresulttype",
    "array_typeid", "element_typeid", "row_typeid", "casetype", "coalescetype", "minmaxtype",
    "refrestype", "refelemtype", "refcontainertype", "funccoltypes", "coltypes", "typid", "type",
    "typeId",
)  # fmt: skip

# Functions of pg_catalog that are volatile or start with pg_, but safe.
ALLOWED_FUNCTIONS: Final = _words(
    """
    clock_timestamp gen_random_uuid random random_normal statement_timestamp timeofday uuidv4
    uuidv7 pg_char_to_encoding pg_collation_for pg_column_size pg_column_compression
    pg_collation_is_visible pg_conversion_is_visible pg_database_size pg_encoding_to_char
    pg_get_constraintdef pg_get_expr pg_get_function_arguments
    pg_get_function_identity_arguments pg_get_function_result pg_function_is_visible
    pg_get_indexdef pg_get_partkeydef pg_get_partition_constraintdef pg_get_serial_sequence
    pg_get_triggerdef pg_get_userbyid pg_get_viewdef pg_has_role pg_index_column_has_property
    pg_indexes_size pg_input_error_info pg_input_is_valid pg_is_in_recovery
    pg_opclass_is_visible pg_operator_is_visible pg_opfamily_is_visible pg_partition_ancestors
    pg_partition_root pg_partition_tree pg_relation_size pg_size_bytes pg_size_pretty
    pg_table_is_visible pg_table_size pg_total_relation_size pg_type_is_visible pg_typeof
    """
)
# Functions of pg_catalog that are neither, but not safe: they read relations or settings by name,
# run SQL given as text, parse a value of a type given as an OID, or have a side effect.
DENIED_FUNCTIONS: Final = _words(
    """
    current_setting txid_current ts_stat ts_rewrite database_to_xml
    database_to_xml_and_xmlschema database_to_xmlschema schema_to_xml
    schema_to_xml_and_xmlschema schema_to_xmlschema table_to_xml table_to_xml_and_xmlschema
    table_to_xmlschema query_to_xml query_to_xml_and_xmlschema query_to_xmlschema cursor_to_xml
    cursor_to_xmlschema setseed satisfies_hash_partition
    array_in domain_in enum_in multirange_in range_in record_in
    array_recv domain_recv enum_recv multirange_recv range_recv record_recv
    """
)
# Functions whose second argument names a type that the first is parsed as: by OID.
PARSING: Final = frozenset({6210, 6211})  # pg_input_is_valid, pg_input_error_info
# This variant of ts_rewrite takes no SQL; the other functions take samples.
ALLOWED_SIGNATURES: Final = frozenset(
    {"ts_rewrite(tsquery,tsquery,tsquery)", "bernoulli(internal)", "system(internal)"}
)

# Functions of pg_catalog that call casts to JSON of the types of what they are given, and those
# that compare elements, columns or bounds.
TO_JSON: Final = re.compile(r"(to|row_to|array_to)_json|jsonb?_(agg|build|object)").match
COMPARING: Final = re.compile(
    r"array_?(eq|ne|lt|le|gt|ge|larger|smaller|overlap|contain|position|remove|replace|sort)"
    r"|bt(array|record)|hash_?(array|record|range|multirange)|record|range|multirange"
    r"|elem_contained|width_bucket"
).match
JSON_NODES: Final = _words("JSONCONSTRUCTOREXPR JSONEXPR JSONVALUEEXPR")

# Extensions whose C functions only compute.
TRUSTED_EXTENSIONS: Final = _words(
    """
    btree_gin btree_gist citext cube earthdistance fuzzystrmatch hstore intarray isn ltree
    pg_trgm pgcrypto seg unaccent uuid-ossp vector
    """
)
# Volatile ones that only compute, too; except those that change the state of the session, although
# they are declared immutable.
VOLATILE_OF_EXTENSIONS: Final = _words(
    """
    gen_random_bytes gen_random_uuid gen_salt uuid_generate_v1 uuid_generate_v1mc uuid_generate_v4
    """
)
DENIED_OF_EXTENSIONS: Final = _words("isn_weak set_limit")

CATALOGS: Final = _words(
    """
    pg_aggregate pg_am pg_amop pg_amproc pg_attrdef pg_attribute
    pg_available_extension_versions pg_available_extensions pg_cast pg_class pg_collation
    pg_constraint pg_conversion pg_database pg_depend pg_description pg_enum pg_extension
    pg_index pg_indexes pg_inherits pg_language pg_matviews pg_namespace pg_opclass pg_operator
    pg_opfamily pg_partitioned_table pg_policies pg_policy pg_proc pg_range pg_roles pg_rules
    pg_sequence pg_sequences pg_stat_all_indexes pg_stat_all_tables pg_stat_user_indexes
    pg_stat_user_tables pg_statio_user_indexes pg_statio_user_tables pg_statistic_ext pg_stats
    pg_tables pg_tablespace pg_timezone_abbrevs pg_timezone_names pg_trigger pg_ts_config
    pg_ts_dict pg_type pg_views
    """
)
# Columns of pg_proc with the source text of functions, and whole rows; by number.
BODIES: Final = {1255: frozenset({0, 26, 27, 28})}
# What tells how many rows tables have: relpages, reltuples and whole rows of pg_class, and views.
COUNTS: Final = {1259: frozenset({0, 10, 11})}
COUNTING_VIEWS: Final = _words(
    """
    pg_stat_all_indexes pg_stat_all_tables pg_stat_user_indexes pg_stat_user_tables
    pg_statio_user_indexes pg_statio_user_tables
    """
)
DENIED_INFORMATION: Final = _words(
    """
    user_mapping_options user_mappings _pg_user_mappings foreign_server_options
    foreign_data_wrapper_options foreign_table_options _pg_foreign_servers
    _pg_foreign_data_wrappers _pg_foreign_tables
    """
)


def only_computes(row: Mapping[str, Any]) -> bool:
    """Return whether a function of a trusted extension has no effect."""
    name = row["name"]
    if row["aggregate"] or name in VOLATILE_OF_EXTENSIONS:
        return True
    return row["compiled"] and not row["volatile"] and name not in DENIED_OF_EXTENSIONS


def against_catalog_function(row: Mapping[str, Any]) -> str:
    """Return why a function of PostgreSQL must not be called; "" if it may."""
    name, signature = row["name"], row["signature"]
    if name in ALLOWED_FUNCTIONS or signature in ALLOWED_SIGNATURES:
        return ""
    if name in DENIED_FUNCTIONS or name.startswith("pg_") or name.endswith("_validator"):
        return f"function {signature} must not be called"
    return f"function {signature} is volatile" if row["volatile"] else ""
