import java.math.BigDecimal;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;

/** Binds values and remembers how MySQL prints them. */
final class Values {
    final List<String> texts = new ArrayList<>();
    private final PreparedStatement statement;

    private final boolean mariadb;

    Values(PreparedStatement statement, boolean mariadb) {
        this.statement = statement;
        this.mariadb = mariadb;
    }

    Values integer(long v) throws SQLException {
        int at = next(Long.toString(v));
        if (v >= Byte.MIN_VALUE && v <= Byte.MAX_VALUE) {
            statement.setByte(at, (byte) v);
        } else if (v >= Short.MIN_VALUE && v <= Short.MAX_VALUE) {
            statement.setShort(at, (short) v);
        } else if (v >= Integer.MIN_VALUE && v <= Integer.MAX_VALUE) {
            statement.setInt(at, (int) v);
        } else {
            statement.setLong(at, v);
        }
        return this;
    }

    Values decimal(String v) throws SQLException {
        statement.setBigDecimal(next(v), new BigDecimal(v));
        return this;
    }

    Values real(float f, double d) throws SQLException {
        statement.setFloat(next(Float.toString(f)), f);
        statement.setDouble(next(Double.toString(d)), d);
        return this;
    }

    Values date(String v) throws SQLException {
        statement.setDate(next(v), java.sql.Date.valueOf(v));
        return this;
    }

    /** MySQL Connector/J takes MariaDB for a MySQL 5.5 and leaves the microseconds out. */
    Values timestamp(String v) throws SQLException {
        statement.setTimestamp(next(mariadb ? v : "\\?"), Timestamp.valueOf(v));
        return this;
    }

    Values time(String v) throws SQLException {
        statement.setTime(next(v), java.sql.Time.valueOf(v));
        return this;
    }

    /** A negative time has no type in JDBC and is a string. */
    Values string(String v) throws SQLException {
        statement.setString(next(v), v);
        return this;
    }

    Values bytes(byte[] v) throws SQLException {
        StringBuilder hex = new StringBuilder("\\x");
        for (byte b : v) {
            hex.append(String.format("%02x", b));
        }
        statement.setBytes(next(hex.toString()), v);
        return this;
    }

    Values nulls(int count) throws SQLException {
        for (int i = 0; i < count; i++) {
            statement.setNull(next(null), i % 2 == 0 ? Types.INTEGER : Types.VARCHAR);
        }
        return this;
    }

    /** Counts and remembers a value that the caller binds. */
    int next(String text) {
        texts.add(text);
        return texts.size();
    }
}
