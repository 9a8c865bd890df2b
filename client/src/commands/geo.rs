//! Methods of the group `geo`. Made from the command table by `cargo x docs`; do not edit.

super::methods! {
    /// `GEOADD key [NX|XX] [CH] longitude latitude member [longitude latitude member ...]`: Adds one or more members to a geospatial index. The key is created if it doesn't exist.
    geoadd("GEOADD", key: impl Args, more: impl Args);

    /// `GEODIST key member1 member2 [M|KM|FT|MI]`: Returns the distance between two members of a geospatial index.
    geodist("GEODIST", key: impl Args, member1: impl Args, member2: impl Args, more: impl Args);

    /// `GEOHASH key [member [member ...]]`: Returns members from a geospatial index as geohash strings.
    geohash("GEOHASH", key: impl Args, more: impl Args);

    /// `GEOPOS key [member [member ...]]`: Returns the longitude and latitude of members from a geospatial index.
    geopos("GEOPOS", key: impl Args, more: impl Args);

    /// `GEORADIUS key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]`: Queries a geospatial index for members within a distance from a coordinate, optionally stores the result.
    georadius("GEORADIUS", key: impl Args, longitude: f64, latitude: f64, radius: f64, more: impl Args);

    /// `GEORADIUSBYMEMBER key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC] [STORE key|STOREDIST key]`: Queries a geospatial index for members within a distance from a member, optionally stores the result.
    georadiusbymember("GEORADIUSBYMEMBER", key: impl Args, member: impl Args, radius: f64, more: impl Args);

    /// `GEORADIUSBYMEMBER_RO key member radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]`: Returns members from a geospatial index that are within a distance from a member.
    georadiusbymember_ro("GEORADIUSBYMEMBER_RO", key: impl Args, member: impl Args, radius: f64, more: impl Args);

    /// `GEORADIUS_RO key longitude latitude radius <M|KM|FT|MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC|DESC]`: Returns members from a geospatial index that are within a distance from a coordinate.
    georadius_ro("GEORADIUS_RO", key: impl Args, longitude: f64, latitude: f64, radius: f64, more: impl Args);

    /// `GEOSEARCH key <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]`: Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon.
    geosearch("GEOSEARCH", key: impl Args, more: impl Args);

    /// `GEOSEARCHSTORE destination source <<FROMMEMBER member|FROMLONLAT longitude latitude> <BYRADIUS radius <M|KM|FT|MI>|BYBOX width height <M|KM|FT|MI>>|BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC|DESC] [COUNT count [ANY]] [STOREDIST]`: Queries a geospatial index for members inside an area of a box, a circle or (as in Valkey 9.0) a polygon, and stores the result.
    geosearchstore("GEOSEARCHSTORE", destination: impl Args, source: impl Args, more: impl Args);
}
